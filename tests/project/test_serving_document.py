"""The programs of docs/serving.md serve thousands of requests at once, and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import random
import re
import socket
import sys
from collections.abc import AsyncIterator, Callable
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import httpx2
import pytest
import uvicorn
from support import ROOT
from support.chats import CHATML
from support.engines import once
from support.examples import slow_except
from support.pages import faults_of, programs_of

from bpetite import StreamVocabulary, Tokenizer

tokenizers = pytest.importorskip("tokenizers")

PROGRAMS = programs_of("serving.md")
SERVER = ROOT / "docs" / "server.py"

START, END = "<|im_start|>", "<|im_end|>"
TAGS = "<think>", "</think>", "<tool_call>", "</tool_call>"

TOKENIZER = Tokenizer.train(
    "the hen then met the ten men " * 9, 280, special_tokens=[START, END, *TAGS]
)
START_ID, END_ID, THINK_ID, *_ = TOKENIZER.special_tokens.values()

WORDS = [
    "the",
    " hen",
    " met",
    " ten",
    " men",
    " é",
    "🙂",
    " 你好",
    "\n",
    ".",
    " STOP",
    f" {START}",
]
"""Text of answers. The tokenizer has only bytes for much of it."""

TOOL = {"type": "function", "function": {"name": "hen", "parameters": {"type": "object"}}}


@once
def test_pages_show_their_programs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    assert [*PROGRAMS] == ["detokenizer.py"]
    engines = programs_of("engines.md")
    assert [*engines] == [
        *("bpetite_vllm.py", "bpetite_sglang.py"),
        *("for_llguidance.py", "for_xgrammar.py", "for_outlines.py"),
    ]
    assert faults_of({**PROGRAMS, **engines}, tmp_path) == ""
    section = page.partition("## An endpoint")[2].partition("## The detokenizer")[0]
    shown = re.findall(r"```python\n(.*?)\n```", section, re.DOTALL)
    assert [part in SERVER.read_text("utf-8") for part in shown] == [True] * 2


def module_of(path: Path) -> Any:
    """Return a program as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The endpoint


class Request(NamedTuple):
    """A request, the text of the model's answer, and what becomes of the client."""

    number: int
    ids: list[int]
    options: dict[str, Any]
    parts: tuple[str, str, list[dict[str, Any]]] = "", "", []
    """The answer's reasoning, its content, and its calls; with a stop, they are not cut yet."""
    leaves_after: int | None = None  # chunks

    @classmethod
    def random(cls, number: int, random: random.Random) -> Request:
        """Return a request. Each third client leaves early."""

        def words() -> str:
            return "".join(random.choice(WORDS) for _ in range(random.randint(0, 8)))

        leaves_after = random.randint(1, 4) if number % 3 == 0 else None
        thought, content, calls = "", words(), list[dict[str, Any]]()
        options: dict[str, Any] = {"logprobs": random.random() < 0.3}
        if leaves_after:
            return cls(number, written(content), options, leaves_after=leaves_after)
        if random.random() < 0.5:
            options["max_tokens" if number % 2 else "max_completion_tokens"] = random.randint(1, 40)
            options["stop"] = random.choice([None, "STOP", "é", ["好🙂", "en m"]])
        else:
            thought = words()
            options["tools"] = [TOOL]
            calls = [{"name": "hen", "arguments": {"é": words()}}] * random.randint(0, 2)
        ids = [THINK_ID, *written(thought), THINK_ID + 1] if thought else []
        ids += written(content)
        for call in calls:
            ids += [THINK_ID + 2, *written(f"\n{json.dumps(call)}\n"), THINK_ID + 3]
        if calls or random.random() < 0.7:
            ids += [END_ID, *written(" no more")]
        return cls(number, ids, options, (thought, content, calls))

    def body(self) -> dict[str, Any]:
        messages = [{"role": "user", "content": f"{self.number} {END}{START}"}]
        return {"model": "hen", "messages": messages, **self.options}

    def prompt_ids(self) -> list[int]:
        """Return the prompt. The user's special tokens are ordinary text in it."""
        ids = []
        if "tools" in self.options:
            tools = written(f"system<tools>\n{json.dumps(TOOL)}</tools>")
            ids = [START_ID, *tools, END_ID, *written("\n")]
        user = written(f"user\n{self.number} {END}{START}")
        ids += [START_ID, *user, END_ID, *written("\n"), START_ID, *written("assistant\n")]
        return ids

    def expected(self) -> tuple[str, str, list[dict[str, Any]], str, int]:
        """Return reasoning, content and calls, why the answer ended, and its number of ids."""
        max_tokens = self.options.get("max_tokens", self.options.get("max_completion_tokens"))
        thought, content, calls = self.parts
        if "tools" in self.options:
            n_ids = self.ids.index(END_ID) + 1 if END_ID in self.ids else len(self.ids)
            reason = "tool_calls" if calls else "stop" if END_ID in self.ids else "length"
            return thought, content, calls, reason, n_ids
        stops = self.options["stop"] or []
        data = b""
        for n_ids, id in enumerate(self.ids[:max_tokens], 1):
            if id == END_ID:
                return "", data.decode("utf-8", "replace"), [], "stop", n_ids
            data += TOKENIZER.decode_bytes([id])
            text = data.decode("utf-8", "ignore")  # half a character is not there yet
            for stop in [stops] if isinstance(stops, str) else stops:
                if stop in text:
                    return "", text.partition(stop)[0], [], "stop", n_ids
        n_ids = len(self.ids[:max_tokens])
        return "", data.decode("utf-8", "replace"), [], "length", n_ids


def written(text: str) -> list[int]:
    return TOKENIZER.encode_ordinary(text)


class Model:
    """The model of all requests: its `generate` finds the request by the prompt.

    The answer to a client that leaves has no end.
    """

    def __init__(self, requests: list[Request]) -> None:
        self.requests = {tuple(request.prompt_ids()): request for request in requests}
        self.has_begun = {request.number: asyncio.Event() for request in requests}
        self.closed = 0

    async def generate(
        self, prompt_ids: list[int], max_tokens: int
    ) -> AsyncIterator[tuple[int, float]]:
        request = self.requests[tuple(prompt_ids)]
        self.has_begun[request.number].set()
        try:
            for number, id in enumerate(request.ids[:max_tokens]):
                for _ in range(id % 3):
                    await asyncio.sleep(0)
                yield id, -float(number)
            while request.leaves_after:
                await asyncio.sleep(0)
                yield 97, 0.0
        finally:
            self.closed += 1


class Server(NamedTuple):
    program: Any
    model: ModuleType


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    """The program of the page, and its module `model`: the test gives it a `generate`."""
    pytest.importorskip("openai")
    model: Any = ModuleType("model")
    model.NAME, model.CONTEXT, model.generate = "hen", 500, None
    monkeypatch.setitem(sys.modules, "model", model)
    TOKENIZER.with_settings(chat_template=CHATML).save(f"{tmp_path}/model/")
    path = tmp_path / "model" / "tokenizer.json"
    document = json.loads(path.read_bytes())
    for token in document["added_tokens"]:  # the tags have text, as in Qwen 3
        token["special"] = token["content"] not in TAGS
    path.write_text(json.dumps(document), "utf-8")
    monkeypatch.chdir(tmp_path)
    return Server(module_of(SERVER), model)


class Transport(httpx2.AsyncBaseTransport):
    """Runs an app as a server of ASGI does, without a network."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self.n_requests = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        messages = [{"type": "http.request", "body": await request.aread(), "more_body": False}]
        self.n_requests += 1
        # Servers of version 2.4 raise an error once the client has left.
        version = "2.4" if self.n_requests % 2 else "2.3"
        left, sent = asyncio.Event(), asyncio.Queue[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            if messages:
                return messages.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            if left.is_set() and version == "2.4":
                raise OSError("the client has left")
            sent.put_nowait(message)

        scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": version},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": request.url.path,
            "raw_path": request.url.raw_path,
            "root_path": "",
            "query_string": b"",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 80),
        }
        running = asyncio.ensure_future(self.app(scope, receive, send))
        running.add_done_callback(lambda _: sent.put_nowait({"type": "end"}))

        class Body(httpx2.AsyncByteStream):
            async def __aiter__(self) -> AsyncIterator[bytes]:
                while (message := await sent.get())["type"] == "http.response.body":
                    yield message["body"]

            async def aclose(self) -> None:
                left.set()
                await asyncio.gather(running, return_exceptions=True)  # a server only logs them

        try:
            start = await sent.get()
        except BaseException:
            await Body().aclose()
            raise
        return httpx2.Response(start["status"], headers=start["headers"], stream=Body())


@contextlib.asynccontextmanager
async def in_process(app: Any) -> AsyncIterator[Any]:
    """Return OpenAI's client of an app."""
    import openai  # here, since other tests run without it

    http = httpx2.AsyncClient(transport=Transport(app))
    async with openai.AsyncOpenAI(
        api_key="-", base_url="http://hen/v1", http_client=http, max_retries=0
    ) as client:
        yield client


@contextlib.asynccontextmanager
async def over_sockets(app: Any) -> AsyncIterator[Any]:
    """Return OpenAI's client of an app that uvicorn runs."""
    import openai

    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
    serving = asyncio.ensure_future(running.serve([listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    async with openai.AsyncOpenAI(api_key="-", base_url=url, max_retries=0) as client:
        yield client
    running.should_exit = True
    await serving


class Answer(NamedTuple):
    """What a client has read: its parts, why it ended, its counts, and each token's place."""

    message: dict[str, Any]
    reason: str | None
    usage: dict[str, int]
    logprobs: list[tuple[list[int], float]]


async def whole(client: Any, body: dict[str, Any]) -> Answer:
    found = await client.chat.completions.create(**body)
    [choice] = found.choices
    scores = choice.logprobs.content if choice.logprobs else []
    message = choice.message.model_dump(exclude_none=True)
    return Answer(message, choice.finish_reason, found.usage.to_dict(), pairs_of(scores))


async def streamed(client: Any, body: dict[str, Any], leaves_after: int | None = None) -> Answer:
    """Read an answer in chunks, or leave after some."""
    options = {"stream": True, "stream_options": {"include_usage": True}}
    message: dict[str, Any] = {}
    reasons: list[str | None] = []
    usage: dict[str, int] = {}
    scores: list[Any] = []
    sizes: list[tuple[int, list[int]]] = []
    async with await client.chat.completions.create(**body, **options) as chunks:
        async for chunk in chunks:
            if chunk.usage:
                assert (chunk.choices, usage) == ([], {})
                usage = chunk.usage.to_dict()
                continue
            [choice] = chunk.choices
            reasons.append(choice.finish_reason)
            for name, value in choice.delta.model_dump(exclude_none=True).items():
                message[name] = message[name] + value if name in message else value
            found = choice.logprobs.content if choice.logprobs else []
            scores += found
            sizes.append((len(choice.delta.content or ""), [each.text_offset for each in found]))
            if len(reasons) == leaves_after:
                return Answer(message, None, {}, [])
    assert not any(reasons[:-1])
    if set(message) == {"role", "content"}:  # each token is in the chunk of its text
        starts = [0, *accumulate(size for size, _ in sizes)]
        for (_, places), (start, end) in zip(sizes, pairwise(starts), strict=True):
            assert all(start <= place <= end for place in places)
    return Answer(message, reasons[-1], usage, pairs_of(scores))


def pairs_of(scores: Any) -> list[tuple[list[int], float]]:
    return [(score.bytes, score.logprob) for score in scores]


def without_ids(calls: Any) -> list[dict[str, Any]]:
    """Return the functions that an answer calls."""
    assert len({call["id"] for call in calls}) == len(calls)
    assert [call["index"] for call in calls] == [*range(len(calls))]
    functions = [call["function"] for call in calls]
    return [each | {"arguments": json.loads(each["arguments"])} for each in functions]


@once
@pytest.mark.parametrize(
    ("over", "count"),
    [
        (in_process, 50),
        (over_sockets, 50),
        pytest.param(in_process, 1000, marks=pytest.mark.slow),
        pytest.param(over_sockets, 1000, marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, int) else value.__name__,
)
def test_requests_of_which_a_third_leaves(
    over: Callable[[Any], Any], count: int, server: Server
) -> None:
    """Each remaining client gets exactly its answer; no source and no task is left."""
    numbers = random.Random(0)
    requests = [Request.random(number, numbers) for number in range(count)]

    async def ask(client: Any, model: Model, request: Request) -> Answer | None:
        if request.number % 2:
            answer = await streamed(client, request.body(), request.leaves_after)
            return None if request.leaves_after else answer
        asking = asyncio.ensure_future(whole(client, request.body()))
        if request.leaves_after:
            await model.has_begun[request.number].wait()
            for _ in range(request.leaves_after):
                await asyncio.sleep(0)
            asking.cancel()
            await asyncio.wait([asking])
            return None
        return await asking

    async def ask_all() -> list[Answer | None]:
        abandoned = list[Any]()  # generators that only the garbage collector ends
        sys.set_asyncgen_hooks(finalizer=abandoned.append)
        model = Model(requests)
        server.program.generate = model.generate
        async with asyncio.timeout(120), over(server.program.app) as client:
            answers = await asyncio.gather(*(ask(client, model, each) for each in requests))
        for _ in range(500):
            if model.closed == count:
                break
            await asyncio.sleep(0.01)
        assert model.closed == count
        ours = [each for each in abandoned if "site-packages" not in each.ag_code.co_filename]
        assert (ours, asyncio.all_tasks()) == ([], {asyncio.current_task()})
        return answers

    answers = asyncio.run(ask_all())
    for request, answer in zip(requests, answers, strict=True):
        if answer is None:
            assert request.leaves_after is not None
            continue
        thought, content, calls, reason, n_ids = request.expected()
        message = dict(answer.message)
        assert without_ids(message.pop("tool_calls", [])) == calls
        assert message.pop("reasoning_content", "") == thought
        assert message == {"role": "assistant", "content": content}
        n_prompt = len(request.prompt_ids())
        assert answer.usage == {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_ids,
            "total_tokens": n_prompt + n_ids,
        }
        assert answer.reason == reason
        ids = request.ids[:n_ids] if request.options["logprobs"] else []
        assert answer.logprobs == [
            ([] if id in (START_ID, END_ID) else [*TOKENIZER.decode_bytes([id])], -number)
            for number, id in enumerate(ids)
        ]


CALL = '<tool_call>{"name": "hen", "arguments": {}}</tool_call>'


@once
@pytest.mark.parametrize("how", [whole, streamed], ids=["whole", "streamed"])
@pytest.mark.parametrize(
    ("text", "options", "message", "reason"),
    [
        pytest.param(
            f"<think>a STOP</think>b STOP c{END}",
            {"stop": "STOP"},
            {"reasoning_content": "a STOP", "content": "b "},
            "stop",
            id="a stop ends no reasoning",
        ),
        pytest.param(
            f"<tool_call>{{men}}</tool_call>{END}",
            {"tools": [TOOL]},
            {"content": "<tool_call>{men}</tool_call>"},
            "stop",
            id="a call that is no JSON is text",
        ),
        pytest.param(
            "a<tool_call>{men",
            {"tools": [TOOL]},
            {"content": "a<tool_call>{men"},
            "length",
            id="half a call is text",
        ),
        pytest.param(CALL, {}, {"content": CALL}, "length", id="without tools, a call is text"),
        pytest.param(
            CALL,
            {"tools": [TOOL], "tool_choice": "none"},
            {"content": CALL},
            "length",
            id="so it is if no tool may be called",
        ),
        pytest.param("é🙂", {"max_tokens": 5}, {"content": "é\ufffd"}, "length", id="half a 🙂"),
    ],
)
def test_answers_with_tags(
    how: Any, text: str, options: Any, message: Any, reason: str, server: Server
) -> None:
    async def generate(_: Any, max_tokens: int) -> AsyncIterator[tuple[int, float]]:
        for id in TOKENIZER.encode(text)[:max_tokens]:
            yield id, 0.0

    async def ask() -> Answer:
        server.program.generate = generate
        async with in_process(server.program.app) as client:
            answer: Answer = await how(client, Request(1, [], {}).body() | options)
            return answer

    answer = asyncio.run(ask())
    assert (answer.message, answer.reason) == (
        {"role": "assistant", "content": "", **message},
        reason,
    )


@once
def test_tool_messages_and_reasoning_reach_the_template(server: Server) -> None:
    """The prompt is what transformers makes of the same messages."""
    prompts = list[list[int]]()

    async def generate(prompt_ids: list[int], _: int) -> AsyncIterator[tuple[int, float]]:
        prompts.append(prompt_ids)
        yield END_ID, 0.0

    function = {"name": "hen", "arguments": '{"é": [1]}'}
    messages: list[Any] = [
        {"role": "system", "content": [{"type": "text", "text": "the"}]},
        {"role": "user", "content": "hen"},
        {
            "role": "assistant",
            "reasoning_content": "met",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "ten men"},
    ]

    async def ask() -> None:
        server.program.generate = generate
        async with in_process(server.program.app) as client:
            await whole(client, {"model": "hen", "messages": messages, "tools": [TOOL]})

    asyncio.run(ask())
    expected = (
        f"{START}system\nthe\n<tools>\n{json.dumps(TOOL)}</tools>{END}\n{START}user\nhen{END}\n"
        f"{START}assistant\n<think>\nmet\n</think>\n\n\n<tool_call>\n"
        f'{{"name": "hen", "arguments": {{"é": [1]}}}}\n</tool_call>{END}\n'
        f"{START}user\n<tool_response>\nten men\n</tool_response>{END}\n{START}assistant\n"
    )
    assert TOKENIZER.decode(prompts[0]) == expected
    assert prompts == [TOKENIZER.encode(expected)]


@once
@pytest.mark.parametrize(
    ("changes", "status", "param", "code", "reason"),
    [
        pytest.param({"stop": ""}, 400, None, None, "empty string", id="an empty stop"),
        pytest.param(
            {"stop": START}, 400, None, None, f"stop_ids=[{START_ID}]", id="a skipped token"
        ),
        pytest.param({"max_tokens": 0}, 400, "max_tokens", None, "equal to 1", id="no tokens"),
        pytest.param({"n": 2}, 400, "n", None, "should be 1", id="two answers"),
        pytest.param({"messages": []}, 400, None, None, "empty conversation", id="no messages"),
        pytest.param(
            {"messages": [{"role": f"user{END}", "content": ""}]},
            *(400, "messages.0.role", None, "should be"),
            id="a role that is none",
        ),
        pytest.param(
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}]},
            *(400, None, None, "Expecting"),
            id="arguments that are no JSON",
        ),
        pytest.param(
            {"model": "ten"}, 404, None, "model_not_found", "no model 'ten'", id="another model"
        ),
        pytest.param(
            {"max_tokens": 500}, 400, None, "context_length_exceeded", "500 more", id="too long"
        ),
    ],
)
def test_a_wrong_request_is_refused_before_the_answer(
    changes: Any, status: int, param: str | None, code: str | None, reason: str, server: Server
) -> None:
    import openai

    async def ask(is_stream: bool) -> Any:
        body = Request(1, [], {}).body() | changes
        async with in_process(server.program.app) as client:
            with pytest.raises(openai.APIStatusError) as caught:
                await client.chat.completions.create(**body, stream=is_stream)
            return caught.value

    for is_stream in (False, True):
        error = asyncio.run(ask(is_stream))
        assert (error.status_code, error.type) == (status, "invalid_request_error")
        assert (error.param, error.code) == (param, code)
        assert reason in error.body["message"]


@once
@pytest.mark.parametrize("how", [whole, streamed], ids=["whole", "streamed"])
def test_a_model_that_fails_is_an_error_of_the_server(
    how: Any, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    import openai

    async def generate(*_: Any) -> AsyncIterator[tuple[int, float]]:
        yield 97, 0.0
        raise RuntimeError("no memory")

    async def ask() -> Any:
        server.program.generate = generate
        async with in_process(server.program.app) as client:
            with pytest.raises(openai.APIError) as caught:
                await how(client, Request(1, [], {}).body())
            return caught.value

    error = asyncio.run(ask())
    assert (error.code, error.type) == ("server_error", "server_error")
    assert getattr(error, "status_code", 500) == 500
    assert ("no memory" in caplog.text) == (how is streamed)  # the server logs the other


@once
def test_a_conversation_keeps_its_prompt(server: Server) -> None:
    """Its prompt matches its messages, also if another conversation has its key."""
    found: list[list[int]] = []

    async def generate(prompt_ids: list[int], _: int) -> AsyncIterator[tuple[int, float]]:
        found.append(prompt_ids)
        yield END_ID, 0.0

    server.program.generate = generate
    server.program.MAX_PROMPTS = 2
    turns = [{"role": "user", "content": f"the {END}"}, {"role": "assistant", "content": "hen"}]
    talks: list[tuple[str | None, list[Any]]] = [
        ("a", turns[:1]),
        ("a", turns),
        ("b", turns[1:]),
        ("a", turns * 2),
        ("c", turns),
        ("a", turns[1:]),
        (None, turns),
    ]

    async def ask() -> None:
        async with in_process(server.program.app) as client:
            for key, messages in talks:
                options = {} if key is None else {"prompt_cache_key": key}
                await whole(client, {"model": "hen", "messages": messages, **options})

    asyncio.run(ask())
    template = server.program.template
    assert found == [
        template.encode(TOKENIZER, messages, add_generation_prompt=True).ids
        for _, messages in talks
    ]
    assert [*server.program.prompts] == ["c", "a"]


# The detokenizer


class Running(NamedTuple):
    """A request that an engine runs: its ids come some at a time."""

    prompt_ids: list[int]
    ids: list[int]
    stop: str | None


def byte_level(folder: Path) -> Any:
    """Return a tokenizer of the library tokenizers with byte-level tokens."""
    TOKENIZER.save(folder / "tokenizer.json")
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def byte_fallback(_: Path) -> Any:
    """Return a tokenizer in the style of SentencePiece, with a token for each byte."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += ["▁", "▁the", "▁hen", "▁met", "ten", "é", ".", "S", "TOP"]
    vocab = {token: id for id, token in enumerate(tokens)}
    made = tokenizers.Tokenizer(
        tokenizers.models.BPE(vocab, [], byte_fallback=True, unk_token="<unk>")
    )
    decoders = tokenizers.decoders
    made.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    made.add_special_tokens(["<unk>", "<s>", "</s>"])
    return made


@pytest.mark.parametrize("make", slow_except([byte_level, byte_fallback], byte_fallback))
def test_thousands_of_requests_take_turns(make: Any, tmp_path: Path) -> None:
    """Compares each text with the library's, for an engine that learns of stops a step late."""
    library, numbers = make(tmp_path), random.Random(1)
    size = library.get_vocab_size()
    words = [library.encode(word, add_special_tokens=False).ids for word in WORDS]
    prompts = [[], library.encode("the", add_special_tokens=False).ids]

    def some_ids() -> list[int]:
        if numbers.random() < 0.8:
            return numbers.choice(words)
        return [numbers.randrange(size + 3)]  # half characters, special tokens, unknown ids

    running = {
        f"request {number}": Running(
            numbers.choice(prompts),
            [id for _ in range(numbers.randint(0, 12)) for id in some_ids()],
            numbers.choice([None, "STOP", "é", "🙂 met", "\ufffd"]),
        )
        for number in range(3000)
    }
    path = tmp_path / "detokenizer.py"
    path.write_text(PROGRAMS["detokenizer.py"], "utf-8")
    detokenizer = module_of(path).Detokenizer(StreamVocabulary(library))
    for name, request in running.items():
        detokenizer.add(name, request.prompt_ids, stop=request.stop)
    gone = {name for name in running if numbers.random() < 0.1}
    texts = dict.fromkeys(running, "")
    ends = dict[str, tuple[str, str | None]]()
    position = dict.fromkeys(running, 0)
    active = [*running]
    while active:
        batch, ended = dict[str, list[int]](), set[str]()
        for name in numbers.sample(active, (len(active) + 1) // 2):
            start, ids = position[name], running[name].ids
            position[name] += numbers.randint(1, 4)
            batch[name] = ids[start : position[name]]
            if start >= len(ids):
                del batch[name]
            if position[name] >= len(ids):
                ended.add(name)
        active = [name for name in active if name not in ended and name not in ends]
        for output in detokenizer.step(batch, ended):
            assert output.request not in ends
            texts[output.request] += output.text
            if output.finish_reason:
                ends[output.request] = output.finish_reason, output.stop_reason
        for name in gone & batch.keys():
            detokenizer.remove(name)
    assert len(detokenizer.streams) == 0
    for name, (prompt_ids, ids, stop) in running.items():
        before = library.decode(prompt_ids)
        text = library.decode([*prompt_ids, *ids])[len(before) :]
        stopped = stop is not None and stop in text
        text = text.partition(stop)[0] if stopped else text
        if name in ends:
            assert (texts[name], ends[name]) == (
                text,
                ("stop", stop) if stopped else ("length", None),
            )
        else:
            assert name in gone
            assert text.startswith(texts[name])
