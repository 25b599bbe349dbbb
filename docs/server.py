# server.py
import asyncio
import json
import logging
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing, suppress
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from model import CONTEXT, NAME, generate
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from bpetite import DecodeStream, Prompt, Tag, Tokenizer, TokenText
from bpetite.chat import ChatTemplate

tokenizer = Tokenizer.load("model")
template = ChatTemplate.load("model")
app = FastAPI()
prompts: OrderedDict[str, Prompt] = OrderedDict()  # by conversation, the last used at the end

END = tokenizer.special_tokens["<|im_end|>"]
THINK, CALL = ("<think>", "</think>"), ("<tool_call>", "</tool_call>")
MAX_PROMPTS = 1000
NAMES_OF_MAX_TOKENS = AliasChoices("max_completion_tokens", "max_tokens")


class TextPart(BaseModel):
    type: Literal["text"]
    text: str


class Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    def for_template(self) -> dict[str, Any]:
        message = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            message["content"] = "".join(part.text for part in self.content)
        for call in message.get("tool_calls", ()):  # templates write JSON themselves
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return message


class StreamOptions(BaseModel):
    include_usage: bool = False


class ChatRequest(BaseModel):
    model: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = Field(None, ge=1, validation_alias=NAMES_OF_MAX_TOKENS)
    stop: str | list[str] | None = None
    logprobs: bool = False
    n: Literal[1] = 1
    prompt_cache_key: str | None = None  # names a conversation
    stream: bool = False
    stream_options: StreamOptions | None = None


def failure(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = "server_error" if code == "server_error" else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@app.exception_handler(RequestValidationError)
async def refuse(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    param = ".".join(map(str, first["loc"][1:]))
    return JSONResponse(failure(f"{param}: {first['msg']}", param=param), 400)


@app.exception_handler(Exception)
async def fail(*_: Any) -> Response:
    return JSONResponse(failure("the model failed", "server_error"), 500)


async def unless_left(receive: Any, answer: Coroutine[Any, Any, Any]) -> Any:
    tasks = [asyncio.ensure_future(each) for each in (answer, receive())]
    try:  # once the body is read, `receive` returns only if the client leaves
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return tasks[0].result() if tasks[0].done() else None
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class EventStream(StreamingResponse):
    media_type = "text/event-stream"

    async def __call__(self, _: Any, receive: Any, send: Any) -> None:
        async with aclosing(self.body_iterator):
            with suppress(OSError):  # the client has left
                await unless_left(receive, self.stream_response(send))


@app.post("/v1/chat/completions")
async def complete(request: ChatRequest, http: Request) -> Response:
    if request.model != NAME:
        return JSONResponse(failure(f"there is no model {request.model!r}", "model_not_found"), 404)
    tools = request.tools if request.tool_choice == "auto" else None
    try:
        messages = [each.for_template() for each in request.messages]
        rendered = template.render(messages, tools=tools, add_generation_prompt=True)
        prompt_ids = encoded(rendered.segments, request.prompt_cache_key)
        stream = tokenizer.decode_stream(
            prompt_ids,
            tags=[*THINK, *(CALL if tools else ())],
            stop=request.stop,
            stop_ids=END,
            skip_special_tokens=True,
            unknown="skip",
        )
    except (KeyError, TypeError, ValueError) as error:  # such as an empty stop
        return JSONResponse(failure(str(error)), 400)
    room = CONTEXT - len(prompt_ids)
    if room < (request.max_tokens or 1):
        reason = f"{len(prompt_ids)} ids of messages and {request.max_tokens or 1} more exceed"
        return JSONResponse(failure(f"{reason} {CONTEXT}", "context_length_exceeded"), 400)
    source = generate(prompt_ids, request.max_tokens or room)
    thinks = rendered.text.rstrip().endswith(THINK[0])
    answer = Answer(request, len(prompt_ids), stream, source, thinks)
    if request.stream:
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return EventStream(answer.lines(), headers=headers)
    whole = await unless_left(http.receive, answer.whole())
    return JSONResponse(whole) if whole else Response(status_code=499)  # nobody reads it


def encoded(segments: list[str], key: str | None) -> list[int]:
    if key is None:
        return tokenizer.encode_parts(segments)[0]
    prompt = prompts.pop(key, None) or tokenizer.prompt()
    prompt.set(segments)
    prompts[key] = prompt
    if len(prompts) > MAX_PROMPTS:
        prompts.popitem(last=False)
    return prompt.ids()


class Answer:
    """Yields an answer in choices: final text, and the log-probabilities of its tokens."""

    def __init__(
        self, request: ChatRequest, n_prompt: int, stream: DecodeStream, source: Any, thinks: bool
    ) -> None:
        self.request, self.stream, self.source, self.thinks = request, stream, source, thinks
        self.n_prompt, self.n_ids = n_prompt, 0
        self.options = request.stream_options or StreamOptions()
        self.head: dict[str, Any] = {"id": f"chatcmpl-{uuid.uuid4().hex}", "model": NAME}
        self.head |= {"created": int(time.time()), "object": "chat.completion"}

    def usage(self) -> dict[str, int]:
        counts = {"prompt_tokens": self.n_prompt, "completion_tokens": self.n_ids}
        return counts | {"total_tokens": self.n_prompt + self.n_ids}

    async def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        scores: list[Any] = []
        async with aclosing(self.choices()) as choices:
            async for choice in choices:
                for name, value in choice.pop("delta").items():
                    message[name] = message[name] + value if name in message else value
                scores += choice["logprobs"]["content"] if choice["logprobs"] else []
        choice |= {"message": message, "logprobs": {"content": scores} if scores else None}
        return self.head | {"choices": [choice], "usage": self.usage()}

    async def lines(self) -> AsyncGenerator[str, None]:
        head = self.head | {"object": "chat.completion.chunk"}
        head |= {"usage": None} if self.options.include_usage else {}
        first = {"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        yield line(head | {"choices": [first]})
        try:
            async with aclosing(self.choices()) as choices:
                async for choice in choices:
                    yield line(head | {"choices": [choice]})
            if self.options.include_usage:
                yield line(head | {"choices": [], "usage": self.usage()})
            yield "data: [DONE]\n\n"
        except Exception:
            logging.exception("the model failed")
            yield line(failure("the model failed", "server_error"))

    async def choices(self) -> AsyncGenerator[dict[str, Any], None]:
        logprobs: list[float] = []  # of the ids of one event
        scores: list[dict[str, Any]] = []
        part, call, n_calls = THINK[0] if self.thinks else None, "", 0

        async def ids() -> AsyncGenerator[int, None]:
            async with aclosing(self.source) as pairs:
                async for id, logprob in pairs:
                    logprobs.append(logprob)
                    yield id

        if part:
            self.stream.pause_stops()
        async with aclosing(self.stream.aevents(ids())) as events:
            async for event in events:
                scores += map(score, event.tokens, logprobs) if self.request.logprobs else ()
                logprobs.clear()
                delta: dict[str, Any] = {}
                for piece in event.pieces:
                    if piece == CALL[1] and part == CALL[0]:
                        delta |= tool_call(call, n_calls)
                        n_calls += "tool_calls" in delta
                    if isinstance(piece, Tag):
                        part, call = piece if piece in (THINK[0], CALL[0]) else None, ""
                        self.stream.pause_stops() if part else self.stream.resume_stops()
                    elif part == CALL[0]:
                        call += piece
                    else:
                        field = "reasoning_content" if part else "content"
                        delta[field] = delta.get(field, "") + piece
                reason: str | None = event.finish_reason
                if reason and part == CALL[0]:  # the answer ended inside a call
                    delta["content"] = delta.get("content", "") + CALL[0] + call
                if delta or reason:
                    reason = "tool_calls" if reason == "stop" and n_calls else reason
                    found = {"content": scores} if scores else None
                    self.n_ids, scores = event.ids_read, []
                    choice = {"index": 0, "delta": delta, "logprobs": found}
                    yield choice | {"finish_reason": reason}


def line(data: dict[str, Any]) -> str:
    return f"data: {json.dumps(data)}\n\n"


def score(token: TokenText, logprob: float) -> dict[str, Any]:
    shown = token.bytes.decode("utf-8", "replace")
    place = {"bytes": list(token.bytes), "text_offset": token.start}
    return {"token": shown, "logprob": logprob, "top_logprobs": []} | place


def tool_call(text: str, index: int) -> dict[str, Any]:
    try:
        call = json.loads(text)
        arguments = json.dumps(call["arguments"], ensure_ascii=False)
        function = {"name": call["name"], "arguments": arguments}
    except (KeyError, TypeError, ValueError):  # the model's mistake is text
        return {"content": text.join(CALL)}
    id = f"call_{uuid.uuid4().hex}"
    return {"tool_calls": [{"index": index, "id": id, "type": "function", "function": function}]}
