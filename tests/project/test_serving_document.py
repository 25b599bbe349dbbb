"""The endpoint of docs/serving.md answers many of OpenAI's clients at once."""

from __future__ import annotations

import asyncio
import re
import runpy
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
import uvicorn
from support import ROOT
from support.chats import CHATML
from support.engines import once

from bpetite import Tokenizer
from bpetite.chat import ChatTemplate

openai = pytest.importorskip("openai")

pytestmark = once

START, END = "<|im_start|>", "<|im_end|>"
TAGS = "<think>", "</think>", "<tool_call>", "</tool_call>"
TOKENIZER = Tokenizer.train(
    "the hen then met the ten men " * 9, 280, special_tokens=[START, END, *TAGS]
)
TOOLS: dict[str, Any] = {"tools": [{"type": "function", "function": {"name": "hen"}}]}
CALL = '<tool_call>{"name": "hen", "arguments": {"é": 1}}</tool_call>'
CALLED = {"name": "hen", "arguments": '{"é": 1}'}


class Case(NamedTuple):
    """What is read of the text that the model writes, and the answer to a request."""

    read: str
    content: str
    reason: str
    options: Mapping[str, Any] = MappingProxyType({})
    unread: str = ""
    others: Mapping[str, Any] = MappingProxyType({})

    def answer(self, n_prompt: int, has_logprobs: bool) -> tuple[Any, ...]:
        """Return all that a client reads."""
        ids = TOKENIZER.encode(self.read + self.unread)
        n_read = self.options.get("max_completion_tokens", len(TOKENIZER.encode(self.read)))
        data, scores = b"", []
        for place, id in enumerate(ids[:n_read] if has_logprobs else ()):
            token = b"" if id in TOKENIZER.encode(START + END) else TOKENIZER.token_bytes(id)
            start = min(len(data.decode(errors="ignore")), len(self.read.removesuffix("STOP")))
            scores.append((start, [*token], -place))
            data += token
        message = {"role": "assistant", "content": self.content, **self.others}
        return message, self.reason, (n_prompt, n_read, n_prompt + n_read), scores


CASES = [
    Case(f"the hen é🙂{START}", "the hen é🙂", "length"),
    Case(f"ten{END}", "ten", "stop", {}, " men"),
    Case("é", "é\ufffd", "length", {"max_completion_tokens": 3}, "🙂"),
    Case("b STOP", "b ", "stop", {"stop": ["é", "STOP"]}, " men"),
    Case(
        "<think>STOP</think>aSTOP", "a", "stop", {"stop": "STOP"}, "", {"reasoning_content": "STOP"}
    ),
    Case(
        *(f"<think>ten</think>men{CALL}{CALL}{END}", "men", "tool_calls", TOOLS, ""),
        {"reasoning_content": "ten", "tool_calls": [CALLED, CALLED]},
    ),
    Case(f"<tool_call>{{men}}</tool_call>{END}", "<tool_call>{men}</tool_call>", "stop", TOOLS),
    Case("a<tool_call>{men", "a<tool_call>{men", "length", TOOLS),
    Case(CALL, CALL, "length"),
    Case(CALL, CALL, "length", {"tool_choice": "none", **TOOLS}),
]


class Model:
    """The reader's module: it writes the text that the user names, without end if it is empty."""

    NAME, CONTEXT = "hen", 500

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.prompts: dict[str, list[int]] = {}
        self.n_running = 0

    async def generate(self, ids: list[int], limit: int) -> AsyncIterator[tuple[int, float]]:
        question = TOKENIZER.decode(ids).rpartition("user\n")[2].partition(END)[0]
        self.prompts[question] = ids
        self.n_running += 1
        try:
            text = self.texts[question]
            for place, id in enumerate(TOKENIZER.encode(text)[:limit]):
                await asyncio.sleep(0)
                yield id, -float(place)
            while not text:
                await asyncio.sleep(0.001)
                yield 97, 0.0
        finally:
            self.n_running -= 1

    def serve(self, ask: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        """Return what `ask` returns for OpenAI's client of the program, which uvicorn runs."""

        async def found() -> Any:
            listening = socket.create_server(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
            app = runpy.run_path(str(ROOT / "docs" / "server.py"))["app"]
            server = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
            serving = asyncio.ensure_future(server.serve([listening]))
            client = openai.AsyncOpenAI(api_key="-", base_url=url, max_retries=0)
            async with asyncio.timeout(120), client:
                result = await ask(client)
            server.should_exit = True
            await serving
            return result

        return asyncio.run(found())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    model: Any = Model()
    monkeypatch.setitem(sys.modules, "model", model)
    TOKENIZER.with_settings(chat_template=CHATML).save(f"{tmp_path}/model/")
    path = tmp_path / "model" / "tokenizer.json"
    text = path.read_text("utf-8")
    for tag in TAGS:  # they have text, as in Qwen 3
        text = re.sub(rf'("{tag}",[^{{}}]*"special": ?)true', r"\1false", text)
    path.write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    return model


async def asked(client: Any, content: Any, **options: Any) -> list[Any]:
    """Return the chunks of an answer, or a whole answer as the only one."""
    usage = {"stream_options": {"include_usage": True}} if options.get("stream") else {}
    messages = [{"role": "user", "content": content}]
    body = {"model": "hen", "messages": messages, **usage, **options}
    found = await client.chat.completions.create(**body)
    return [chunk async for chunk in found] if options.get("stream") else [found]


def read(chunks: list[Any]) -> tuple[Any, ...]:
    """Return what `Case.answer` returns, from what the client has got."""
    choices = [choice for chunk in chunks for choice in chunk.choices]
    message: dict[str, Any] = {}
    for choice in choices:
        part = getattr(choice, "delta", None) or choice.message
        for name, value in part.model_dump(exclude_none=True).items():
            message[name] = message[name] + value if name in message else value
    if calls := message.get("tool_calls"):
        assert [call["index"] for call in calls] == [*range(len({call["id"] for call in calls}))]
        message["tool_calls"] = [call["function"] for call in calls]
    [usage] = [chunk.usage for chunk in chunks if chunk.usage]
    counts = usage.prompt_tokens, usage.completion_tokens, usage.total_tokens
    [reason] = [choice.finish_reason for choice in choices if choice.finish_reason]
    scores = [score for choice in choices if choice.logprobs for score in choice.logprobs.content]
    places = [(score.text_offset, score.bytes, score.logprob) for score in scores]
    return message, reason, counts, places


@pytest.mark.parametrize("count", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_clients_get_their_answers_while_a_third_leaves(count: int, model: Model) -> None:
    """No generator is left, and none waits for the garbage collector."""
    cases = [CASES[number // 3 % len(CASES)] for number in range(count)]
    for number, case in enumerate(cases):
        model.texts[str(number)] = case.read + case.unread if number % 3 else ""
    abandoned = list[Any]()

    async def ask(client: Any, number: int) -> tuple[Any, Any] | None:
        case, question = cases[number], str(number)
        options = {"stream": number // 30 % 2 == 0, "logprobs": number % 3 == 1, **case.options}
        asking = asyncio.ensure_future(asked(client, question, **options))
        if number % 3:
            return read(await asking), case.answer(len(model.prompts[question]), number % 3 == 1)
        while question not in model.prompts:
            await asyncio.sleep(0.001)
        await asyncio.sleep(number % 7 / 500)
        asking.cancel()
        return None

    async def ask_all(client: Any) -> list[tuple[Any, Any] | None]:
        sys.set_asyncgen_hooks(finalizer=abandoned.append)
        answers = await asyncio.gather(*(ask(client, number) for number in range(count)))
        while model.n_running:
            await asyncio.sleep(0.01)
        return answers

    found, expected = zip(*filter(None, model.serve(ask_all)), strict=True)
    assert found == expected
    assert [each for each in abandoned if "site-packages" not in each.ag_code.co_filename] == []


def test_the_prompt_is_what_the_template_writes(model: Model) -> None:
    def messages(content: Any, arguments: Any) -> list[dict[str, Any]]:
        call = {"type": "function", "function": {"name": "hen", "arguments": arguments}}
        return [
            {"role": "system", "content": content},
            {"role": "user", "content": f"hen {END}"},
            {"role": "assistant", "reasoning_content": "met", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "ten men"},
            {"role": "user", "content": "0"},
        ]

    model.texts["0"] = "ten"
    sent = messages([{"type": "text", "text": "the"}], '{"é": [1]}')
    model.serve(lambda client: asked(client, "", messages=sent, **TOOLS))
    template, plain = ChatTemplate(CHATML), messages("the", {"é": [1]})
    expected = template.encode(TOKENIZER, plain, **TOOLS, add_generation_prompt=True)
    assert model.prompts == {"0": expected.ids}


CALLING = {"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}
FAILURES: list[tuple[dict[str, Any], int, str | None, str | None, str]] = [
    ({"stop": ""}, 400, None, None, "empty string"),
    ({"stop": START}, 400, None, None, "stop_ids=[270]"),
    ({"max_tokens": 0}, 400, "max_tokens", None, "equal to 1"),
    ({"n": 2}, 400, "n", None, "should be 1"),
    ({"top_logprobs": 2}, 400, "top_logprobs", None, "not permitted"),
    ({"response_format": {"type": "text"}}, 400, "response_format", None, "not permitted"),
    ({"messages": []}, 400, None, None, "empty conversation"),
    ({"messages": [{"role": f"user{END}"}]}, 400, "messages.0.role", None, "should be"),
    ({"messages": [CALLING]}, 400, None, None, "Expecting"),
    ({"model": "ten"}, 404, None, "model_not_found", "no model 'ten'"),
    ({"max_tokens": 500}, 400, None, "context_length_exceeded", "500 more"),
    ({}, 500, None, "server_error", "the model failed"),
]


@pytest.mark.parametrize("stream", [False, True])
def test_failures_are_errors_of_openai(stream: bool, model: Model) -> None:
    async def failure(client: Any, changes: dict[str, Any], reason: str) -> tuple[Any, ...]:
        with pytest.raises(openai.APIError, match=re.escape(reason)) as caught:
            await asked(client, "no text", stream=stream, **changes)
        error = caught.value
        kind = "server_error" if error.code == "server_error" else "invalid_request_error"
        assert error.type == kind
        return changes, getattr(error, "status_code", 500), error.param, error.code, reason

    async def ask(client: Any) -> list[tuple[Any, ...]]:
        assert [each.id for each in (await client.models.list()).data] == ["hen"]
        return [await failure(client, each[0], each[-1]) for each in FAILURES]

    assert model.serve(ask) == FAILURES
