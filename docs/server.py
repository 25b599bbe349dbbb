# server.py
import json
import logging
import time
import uuid
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, StreamingResponse
from model import CONTEXT, NAME, generate
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from bpetite import DecodeStream, Tag, Tokenizer, TokenText
from bpetite.chat import ChatTemplate, Encoded

tokenizer = Tokenizer.load("model")
template = ChatTemplate.load("model")
app = FastAPI()

END = tokenizer.special_tokens["<|im_end|>"]
THINK, CALL = ("<think>", "</think>"), ("<tool_call>", "</tool_call>")
NAMES_OF_MAX_TOKENS = AliasChoices("max_completion_tokens", "max_tokens")


class Message(BaseModel):
    model_config = ConfigDict(extra="allow")

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[Literal["type", "text"], str]] | None = None
    tool_calls: list[dict[str, Any]] | None = None

    def for_template(self) -> dict[str, Any]:
        message = self.model_dump(exclude_none=True)
        if isinstance(self.content, list):
            message["content"] = "".join(part["text"] for part in self.content)
        for call in message.get("tool_calls", ()):  # templates write JSON themselves
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        return message


class ChatRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")  # an unknown field is the status 400

    model: str
    messages: list[Message]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Literal["auto", "none"] = "auto"
    max_tokens: int | None = Field(None, ge=1, validation_alias=NAMES_OF_MAX_TOKENS)
    stop: str | list[str] | None = None
    logprobs: bool = False
    n: Literal[1] = 1
    stream: bool = False
    stream_options: dict[Literal["include_usage"], bool] | None = None


def failure(message: str, code: str | None = None, param: str | None = None) -> dict[str, Any]:
    kind = "server_error" if code == "server_error" else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


@app.exception_handler(RequestValidationError)
async def refuse(_: Request, error: RequestValidationError) -> Response:
    first = error.errors()[0]
    param = ".".join(map(str, first["loc"][1:]))
    return JSONResponse(failure(f"{param}: {first['msg']}", param=param), 400)


FAILED = failure("the model failed", "server_error")
app.add_exception_handler(Exception, lambda *_: JSONResponse(FAILED, 500))


@app.get("/v1/models")
async def models() -> dict[str, Any]:
    model = {"id": NAME, "object": "model", "created": 0, "owned_by": "me"}
    return {"object": "list", "data": [model]}


@app.post("/v1/chat/completions")
async def complete(request: ChatRequest, http: Request) -> Response:
    if request.model != NAME:
        return JSONResponse(failure(f"there is no model {request.model!r}", "model_not_found"), 404)
    tools = request.tools if request.tool_choice == "auto" else None
    try:
        messages = [each.for_template() for each in request.messages]
        encoded = template.encode(tokenizer, messages, tools=tools, add_generation_prompt=True)
        stream = tokenizer.decode_stream(
            encoded.ids,
            tags=[*THINK, *(CALL if tools else ())],
            stop=request.stop,
            stop_ids=END,
            skip_special_tokens=True,
            unknown="skip",
        )
    except (KeyError, TypeError, ValueError) as error:  # such as an empty stop
        return JSONResponse(failure(str(error)), 400)
    max_tokens = request.max_tokens or max(CONTEXT - len(encoded.ids), 1)
    if len(encoded.ids) + max_tokens > CONTEXT:
        reason = f"{len(encoded.ids)} ids of messages and {max_tokens} more exceed {CONTEXT}"
        return JSONResponse(failure(reason, "context_length_exceeded"), 400)
    chunks = chunks_of(http, request, encoded, stream, generate(encoded.ids, max_tokens))
    head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "model": NAME, "created": int(time.time())}
    if request.stream:
        lines = lines_of(chunks, head, request.stream_options or {})
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        return StreamingResponse(lines, headers=headers, media_type="text/event-stream")
    async with aclosing(chunks):
        return JSONResponse(head | {"object": "chat.completion"} | await anext(chunks))


async def chunks_of(
    http: Request, request: ChatRequest, encoded: Encoded, stream: DecodeStream, source: Any
) -> AsyncGenerator[dict[str, Any], None]:
    logprobs: list[float] = []  # of the ids of one event
    scores: list[dict[str, Any]] = []
    delta: dict[str, Any] = {"role": "assistant", "content": ""}
    part: str | None = None
    call, n_calls, n_prompt = "", 0, len(encoded.ids)

    async def ids() -> AsyncGenerator[int, None]:
        async with aclosing(source) as pairs:
            async for id, logprob in pairs:
                if await http.is_disconnected():
                    return
                logprobs.append(logprob)
                yield id

    if encoded.prompt.text.rstrip().endswith(THINK[0]):
        part = THINK[0]
        stream.pause_stops()
    async with aclosing(stream.aevents(ids())) as events:
        async for event in events:
            scores += map(score, event.tokens, logprobs) if request.logprobs else ()
            logprobs.clear()
            for piece in event.pieces:
                if (part, piece) == CALL:
                    found = tool_call(call, n_calls)
                    n_calls += "tool_calls" in found
                    add(delta, found)
                if isinstance(piece, Tag):
                    part, call = piece if piece in (THINK[0], CALL[0]) else None, ""
                    stream.pause_stops() if part else stream.resume_stops()
                elif part == CALL[0]:
                    call += piece
                else:
                    add(delta, {"reasoning_content" if part else "content": piece})
            reason: str | None = event.finish_reason
            if reason and part == CALL[0]:  # the answer ended inside a call
                add(delta, {"content": CALL[0] + call})
            if reason or (delta and request.stream):
                reason = "tool_calls" if reason == "stop" and n_calls else reason
                choice = {"index": 0, "delta" if request.stream else "message": delta}
                choice |= {"logprobs": {"content": scores} if scores else None}
                choice |= {"finish_reason": reason}
                counts = {"prompt_tokens": n_prompt, "completion_tokens": event.ids_read}
                usage = counts | {"total_tokens": n_prompt + event.ids_read}
                yield {"choices": [choice], "usage": usage}
                delta, scores = {}, []


def add(delta: dict[str, Any], more: dict[str, Any]) -> None:
    for name, value in more.items():
        delta[name] = delta[name] + value if name in delta else value


async def lines_of(
    chunks: Any, head: dict[str, Any], options: dict[Any, bool]
) -> AsyncGenerator[str, None]:
    head |= {"object": "chat.completion.chunk"}
    try:
        async with aclosing(chunks):
            async for chunk in chunks:
                yield f"data: {json.dumps(head | chunk | {'usage': None})}\n\n"
        if options.get("include_usage"):
            yield f"data: {json.dumps(head | chunk | {'choices': []})}\n\n"
        yield "data: [DONE]\n\n"
    except Exception:
        logging.exception("the model failed")
        yield f"data: {json.dumps(FAILED)}\n\n"


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
