"""The programs of docs/serving.md serve thousands of requests at once, and lose nothing."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import random
import sys
from collections.abc import AsyncIterator
from itertools import accumulate, pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from starlette.requests import ClientDisconnect
from support import ROOT
from support.engines import once
from support.examples import slow_except
from support.pages import faults_of, programs_of

from bpetite import StreamVocabulary, Tokenizer

tokenizers = pytest.importorskip("tokenizers")

PROGRAMS = programs_of("serving.md")

START, END = "<|im_start|>", "<|im_end|>"

TOKENIZER = Tokenizer.train("the hen then met the ten men " * 9, 280, special_tokens=[START, END])
START_ID, END_ID = TOKENIZER.special_tokens[START], TOKENIZER.special_tokens[END]

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


@once
def test_page_has_its_programs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "serving.md").read_text("utf-8")
    assert [*PROGRAMS] == ["server.py", "detokenizer.py"]
    assert page.count("```python\n#") == len(PROGRAMS)
    assert faults_of(PROGRAMS, tmp_path) == ""


def program(name: str, folder: Path) -> ModuleType:
    """Return a program of the page as a module."""
    path = folder / name
    path.write_text(PROGRAMS[name], "utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The endpoint


class Request(NamedTuple):
    """A request, the ids of the model, and what becomes of the client."""

    number: int
    ids: list[int]
    max_tokens: int
    stop: str | None
    logprobs: bool
    leaves_after: int | None = None  # chunks
    spec_version: str = "2.3"

    @classmethod
    def random(cls, number: int, random: random.Random) -> Request:
        """Return a request. Each third client leaves early, at each version of ASGI."""
        words = [random.choice(WORDS) for _ in range(random.randint(0, 8))]
        ids = TOKENIZER.encode_ordinary("".join(words))
        if random.random() < 0.7:
            ids += [END_ID, *TOKENIZER.encode_ordinary(" no more")]
        return cls(
            number,
            ids,
            random.randint(1, 40),
            random.choice([None, "STOP", "é", "好🙂", "en m"]),
            random.random() < 0.3,
            random.randint(1, 4) if number % 3 == 0 else None,
            random.choice(["2.3", "2.4"]),
        )

    def body(self) -> dict[str, Any]:
        return {
            "model": "small",
            "messages": [{"role": "user", "content": f"{self.number} {END}{START}"}],
            "max_tokens" if self.number % 2 else "max_completion_tokens": self.max_tokens,
            "stop": self.stop,
            "logprobs": self.logprobs,
            "stream": True,
            "stream_options": {"include_usage": True},
        }

    def prompt_ids(self) -> list[int]:
        """Return the prompt. The user's special tokens are ordinary text in it."""
        user = TOKENIZER.encode_ordinary(f"user\n{self.number} {END}{START}")
        return [
            *(START_ID, *user, END_ID, *TOKENIZER.encode_ordinary("\n")),
            *(START_ID, *TOKENIZER.encode_ordinary("assistant\n")),
        ]

    def expected(self) -> tuple[str, str, int]:
        """Return the text, the reason of its end, and the number of ids up to the end."""
        ids = self.ids[: self.max_tokens]
        data = b""
        for count, id in enumerate(ids, 1):
            if id == END_ID:
                return data.decode("utf-8", "replace"), "stop", count
            data += TOKENIZER.decode_bytes([id])
            text = data.decode("utf-8", "ignore")  # half a character is not there yet
            if self.stop and self.stop in text:
                return text.partition(self.stop)[0], "stop", count
        return data.decode("utf-8", "replace"), "length", len(ids)


class Model:
    """The model of all requests: its `generate` finds the request by the prompt."""

    def __init__(self, requests: list[Request]) -> None:
        self.ids_of = {tuple(request.prompt_ids()): request.ids for request in requests}
        self.begun = self.closed = 0

    async def generate(
        self, prompt_ids: list[int], max_tokens: int
    ) -> AsyncIterator[tuple[int, float]]:
        self.begun += 1
        try:
            for number, id in enumerate(self.ids_of[tuple(prompt_ids)][:max_tokens]):
                for _ in range(id % 3):
                    await asyncio.sleep(0)
                yield id, -float(number)
        finally:
            self.closed += 1


@pytest.fixture
def module_of_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module `model` of the page, and the tokenizer of the endpoint."""
    TOKENIZER.save(tmp_path / "tokenizer.json")
    monkeypatch.chdir(tmp_path)
    module = ModuleType("model")
    monkeypatch.setitem(sys.modules, "model", module)
    return module


async def asked(
    app: Any, body: Any, leaves_after: int | None = None, spec_version: str = "2.3"
) -> tuple[int, list[str]]:
    """Send a request as a server does; return the status, and the chunks up to where it leaves."""
    messages = [{"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}]
    left = asyncio.Event()
    status, chunks = 0, list[str]()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await left.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status
        await asyncio.sleep(0)
        if left.is_set():
            if spec_version != "2.3":
                raise OSError("the client has left")
        elif message["type"] == "http.response.start":
            status = message["status"]
        elif message["body"]:
            chunks.append(message["body"].decode())
            if len(chunks) == leaves_after:
                left.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": spec_version},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/v1/chat/completions",
        "raw_path": b"/v1/chat/completions",
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    with contextlib.suppress(ClientDisconnect):  # which a server only logs
        await app(scope, receive, send)
    return status, chunks


def data_of(chunks: list[str]) -> list[Any]:
    """Return the JSON of server-sent events; the last is [DONE]."""
    events = "".join(chunks).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


@once
@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.slow)])
def test_requests_of_which_a_third_leaves(
    count: int, module_of_model: ModuleType, tmp_path: Path
) -> None:
    """Each remaining client gets exactly its text; no source and no task is left."""
    numbers = random.Random(0)
    requests = [Request.random(number, numbers) for number in range(count)]
    model = Model(requests)
    module_of_model.generate = model.generate  # type: ignore[attr-defined]
    app = program("server.py", tmp_path).app

    async def ask_all() -> list[tuple[int, list[str]]]:
        abandoned = list[Any]()  # generators that only the garbage collector ends
        sys.set_asyncgen_hooks(finalizer=abandoned.append)
        answers = await asyncio.gather(
            *(asked(app, each.body(), each.leaves_after, each.spec_version) for each in requests)
        )
        assert (abandoned, asyncio.all_tasks()) == ([], {asyncio.current_task()})
        assert model.begun == model.closed > 0
        return answers

    answers = asyncio.run(ask_all())
    for request, (status, chunks) in zip(requests, answers, strict=True):
        assert status == 200
        if request.leaves_after is None or len(chunks) < request.leaves_after:
            check_answer(request, data_of(chunks))
        else:
            assert len(chunks) == request.leaves_after


def check_answer(request: Request, data: list[Any]) -> None:
    """Check the chunks of an answer: text, end, counts, and the offsets of tokens."""
    text, reason, count = request.expected()
    *chunks, usage = data
    choices = [chunk["choices"][0] for chunk in chunks]
    deltas = [choice["delta"] for choice in choices]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == text
    assert [choice["finish_reason"] for choice in choices] == [None] * (len(choices) - 1) + [reason]
    size = len(request.prompt_ids())
    assert (usage["choices"], usage["usage"]) == (
        [],
        {"prompt_tokens": size, "completion_tokens": count, "total_tokens": size + count},
    )
    assert {(each["object"], each["id"], each["model"]) for each in data} == {
        ("chat.completion.chunk", data[0]["id"], "small")
    }
    found = [choice["logprobs"]["content"] if choice["logprobs"] else [] for choice in choices]
    scores = [score for each in found for score in each]
    ids = request.ids[:count] if request.logprobs else []
    assert [(score["bytes"], score["logprob"]) for score in scores] == [
        ([] if id in (START_ID, END_ID) else [*TOKENIZER.decode_bytes([id])], -number)
        for number, id in enumerate(ids)
    ]
    starts = [0, *accumulate(len(delta.get("content", "")) for delta in deltas)]
    for some, (start, end) in zip(found, pairwise(starts), strict=True):
        assert all(start <= score["text_offset"] <= end for score in some)


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        pytest.param({"stop": ""}, 400, "empty string", id="an empty stop"),
        pytest.param({"stop": END}, 200, "", id="the end token's literal"),
        pytest.param({"stop": START}, 400, f"stop_ids=[{START_ID}]", id="a skipped token"),
        pytest.param({"max_tokens": 0}, 422, "greater than or equal to 1", id="no tokens"),
        pytest.param({"stream": False}, 422, "Input should be True", id="no stream"),
        pytest.param(
            {"messages": [{"role": f"user{END}", "content": ""}]}, 422, "Input should be", id="role"
        ),
    ],
)
def test_a_wrong_request_is_refused_before_the_answer(
    changes: Any, status: int, reason: str, module_of_model: ModuleType, tmp_path: Path
) -> None:
    request = Request(1, [97], 9, None, False)
    module_of_model.generate = Model([request]).generate  # type: ignore[attr-defined]
    app = program("server.py", tmp_path).app
    answer = asyncio.run(asked(app, request.body() | changes))
    assert answer[0] == status
    assert reason in "".join(answer[1])


@once
def test_a_conversation_keeps_its_prompt(module_of_model: ModuleType, tmp_path: Path) -> None:
    """Its prompt is that of its messages, also if another conversation has its key."""
    asks: list[list[int]] = []

    async def generate(prompt_ids: list[int], _: int) -> AsyncIterator[tuple[int, float]]:
        asks.append(prompt_ids)
        yield END_ID, 0.0

    module_of_model.generate = generate  # type: ignore[attr-defined]
    server: Any = program("server.py", tmp_path)
    server.MAX_PROMPTS = 2
    turns = [{"role": "user", "content": f"the {END}"}, {"role": "assistant", "content": "hen"}]
    talks: list[tuple[str | None, list[Any]]] = [
        ("a", turns[:1]),
        ("a", turns),
        ("b", turns[1:]),
        ("a", turns * 2),
        ("c", turns),
    ]
    talks += [("a", turns[1:]), (None, turns)]
    for key, messages in talks:
        body = Request(1, [], 9, None, False).body()
        asyncio.run(asked(server.app, body | {"messages": messages, "prompt_cache_key": key}))
    prompts = [
        server.prompt_of(server.ChatRequest(model="", messages=each, stream=True))
        for _, each in talks
    ]
    assert asks == prompts
    assert [*server.prompts] == ["c", "a"]


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
    detokenizer = program("detokenizer.py", tmp_path).Detokenizer(StreamVocabulary(library))
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
