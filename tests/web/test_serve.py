"""The verb `serve`: the server's answers and refusals, its start and its end."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path
from subprocess import Popen
from types import MappingProxyType

import pytest
from starlette.testclient import TestClient
from support.cli import TEXT, TOKENIZER, failure, in_process, start
from support.cli import folder as folder  # a fixture
from support.engines import quick_once
from support.examples import slow_except
from support.programs import posix_only
from support.vocabularies import vocabulary

from bpetite import Tokenizer
from bpetite._web import app
from bpetite._web.app import MAX_BYTES, MAX_SHOWN, Model, application
from bpetite._web.explained import MAX_DRAWN_BYTES
from bpetite._web.server import MAX_CONNECTIONS
from bpetite._web.training import MAX_STEPS
from conftest import TEXTS

pytestmark = quick_once

BYTES = Tokenizer.train("", 256)
"""A tokenizer whose tokens are single bytes, except <|endoftext|> = 256."""

HOME = "http://127.0.0.1:8765"


def client(*tokenizers: Tokenizer, loopback: bool = True, url: str = HOME) -> TestClient:
    """Return a client of a page with these tokenizers."""
    models = [Model(f"{number}.json", each) for number, each in enumerate(tokenizers)]
    return TestClient(application(models, loopback), base_url=url)


# The page


@pytest.mark.parametrize(
    ("path", "media_type", "start"),
    [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/page.css", "text/css; charset=utf-8", ":root"),
        ("/page.js", "text/javascript; charset=utf-8", "//"),
        ("/tree.js", "text/javascript; charset=utf-8", "//"),
        ("/icon.svg", "image/svg+xml", "<svg"),
    ],
)
def test_page_has_files_of_each_type(path: str, media_type: str, start: str) -> None:
    answer = client(BYTES).get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, media_type)
    assert answer.text.startswith(start)


def test_page_loads_only_its_own_files() -> None:
    browser = client(BYTES)
    page = browser.get("/").text
    assert re.findall(r'(?:href|src|action)="([^"]*)"', page) == [
        "/icon.svg",
        "/page.css",
        "/page.js",
    ]
    names = [file.name for file in (files("bpetite._web") / "static").iterdir()]
    assert {"common.js", "tree.js", "page.css"} <= {*names}
    for name in {*names} - {"icon.svg", "index.html"}:
        answer = browser.get(f"/{name}")
        assert answer.status_code == 200
        imports = re.findall(r'^} from "(.*)"|^import .* from "(.*)"', answer.text, re.MULTILINE)
        assert {"".join(each).removeprefix("./") for each in imports} <= {*names}
        assert "://" not in answer.text + page


def test_page_has_no_inline_code_or_style() -> None:
    page = client(BYTES).get("/").text
    assert re.findall(r"<style|\bstyle=|\bon\w+=|<script(?![^>]* src=)", page) == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/", 200), ("GET", "/none", 404), ("GET", "/tokens", 405), ("POST", "/tokens", 200)],
)
def test_every_answer_has_the_security_headers(method: str, path: str, status: int) -> None:
    answer = client(BYTES).request(method, path)
    policy = answer.headers["content-security-policy"].split("; ")
    assert answer.status_code == status
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert {"default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"} <= set(policy)
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_models_are_described() -> None:
    assert client(TOKENIZER, BYTES).get("/models").json() == {
        "models": [
            {"name": "0.json", "ids": 292, "merges": 34, "pattern": "gpt2"},
            {"name": "1.json", "ids": 257, "merges": 0, "pattern": "gpt2"},
        ],
        "maxBytes": MAX_BYTES,
        "maxTrainingBytes": 1000,
        "maxMerges": MAX_STEPS,
    }


# Tokens


def test_tokens_come_in_groups_of_whole_characters() -> None:
    tokenizer = Tokenizer.train("ab ab ab", 257)
    answer = client(tokenizer).post("/tokens", content="abé<|endoftext|>\n")
    assert answer.json() == [
        {
            "tokens": 5,
            "bytes": 18,
            "groups": [
                ["ab", [[256, "61 62"]], False],
                ["é", [[195, "C3"], [169, "A9"]], False],
                ["<|endoftext|>", [[257, b"<|endoftext|>".hex(" ").upper()]], True],
                ["\n", [[10, "0A"]], False],
            ],
        }
    ]


def test_special_tokens_may_be_ordinary_text() -> None:
    (found,) = client(BYTES).post("/tokens?ordinary=1", content="<|endoftext|>").json()
    assert [group[1][0][0] for group in found["groups"]] == list(b"<|endoftext|>")


def test_empty_text_has_no_tokens() -> None:
    answer = client(BYTES).post("/tokens", content=b"")
    assert answer.json() == [{"tokens": 0, "bytes": 0, "groups": []}]


@pytest.mark.parametrize("name", ["literals in a row", "emoji with joiners", "longer than a block"])
def test_two_models_stand_side_by_side(name: str) -> None:
    text = TEXTS[name]
    answer = client(TOKENIZER, BYTES).post("/tokens", content=text)
    for tokenizer, found in zip((TOKENIZER, BYTES), answer.json(), strict=True):
        ids = [id for group in found["groups"] for id, _ in group[1]]
        whole = tokenizer.encode(text)
        assert (found["tokens"], ids) == (len(whole), whole[: len(ids)])
        assert len(ids) == len(whole) or len(found["groups"]) == 4000
        assert text.startswith("".join(group[0] for group in found["groups"]))
    ids = client(BYTES, TOKENIZER).post("/ids?model=1&ordinary=1", content=text).json()
    assert ids == TOKENIZER.encode_ordinary(text)


# Merges, vocabulary and training


def test_piece_of_a_token_is_explained() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men", 262)
    answer = client(BYTES, tokenizer).post("/explain?model=1&at=3", content="the then")
    assert answer.json() == {
        "piece": " then",
        "bytes": 5,
        "max_bytes": MAX_DRAWN_BYTES,
        "kind": "merged",
        "first": 2,
        "ids": [257, 260],
        "byte_ids": [32, 116, 104, 101, 110],
        "steps": [
            step([101, 110], 0, 256, [3, 4], [32, 116], 1),
            step([32, 116], 1, 257, [0, 1], [104, 256], 4),
            step([104, 256], 4, 260, [2, 5], None, None),
        ],
        "roots": [6, 7],
        "tokens": {
            **{str(byte): f"{byte:02X}" for byte in (32, 101, 104, 110, 116)},
            **{"256": "65 6E", "257": "20 74", "260": "68 65 6E"},
        },
    }


def step(
    pair: list[int], rank: int, id: int, parts: list[int], lost: list[int] | None, lost_rank: object
) -> dict[str, object]:
    """Return a step as the page receives it."""
    names = ("pair", "rank", "id", "parts", "lost", "lost_rank")
    return dict(zip(names, (pair, rank, id, parts, lost, lost_rank), strict=True))


def test_long_piece_is_not_drawn() -> None:
    text = "a" * (MAX_DRAWN_BYTES + 1)
    found = client(BYTES).post("/explain?at=5", content=text).json()
    assert (found["kind"], found["bytes"], found["steps"]) == ("long", len(text), [])


def test_vocabulary_is_sorted_and_searched() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men", 262)

    def ids(query: str) -> list[int]:
        answer = client(tokenizer).post(f"/vocabulary?{query}", content="then").json()
        return [row[0] for row in answer["rows"]]

    with_en = [id for id in tokenizer.ids if b"en" in tokenizer.token_bytes(id)]
    assert ids("find=en&sort=rank") == with_en
    assert ids("find=65%206e") == ids("find=en")
    assert ids("find=0x656e") == ids("find=en")
    assert ids("find=%23260") == ids("find=%230,260") == [260]
    assert ids("find=%23999") == []
    assert sorted(ids("show=used")) == sorted(tokenizer.encode("then"))
    assert ids("sort=uses")[:2] == [116, 260]
    assert ids("sort=length")[0] == 262
    assert len(ids("show=unused")) == 200
    assert len(ids("show=unused&start=200")) == 61
    assert len(ids("show=parts")) == 128


def test_token_has_its_merge_and_wholes() -> None:
    tokenizer = Tokenizer.train("the hen then met the ten men", 262)
    found = client(tokenizer).post("/token?id=256", content="ten ten").json()
    assert found["row"] == [256, "65 6E", "Latin", 0, found["row"][4], found["row"][5]]
    assert found["merges"] == [[0, 101, 110]]
    assert found["row"][4] == sum(256 in pair for pair in tokenizer.merges)
    assert found["row"][5] == tokenizer.encode("ten ten").count(256)
    assert [tokenizer.merges[id - 256] for id in found["wholes"]] == [
        pair for pair in tokenizer.merges if 256 in pair
    ]
    assert client(tokenizer).post("/token?id=999", content="").text == "no token has the id 999"


def test_foreign_vocabulary_can_be_browsed() -> None:
    tokens = {300: b"ab", 301: b"abc", 900: b"xyz"}
    tokenizer = Tokenizer(
        vocabulary(tokens, [(97, 98), (300, 99)], ignore_merges=True, special_tokens={"<s>": 5000})
    )
    browser = client(tokenizer)
    found = browser.post("/token?id=301", content="").json()
    assert (found["merges"], found["tree"]) == ([[1, 300, 99]], [300, 301])
    assert browser.post("/token?id=900", content="").json()["merges"] == []
    assert browser.post("/token?id=5000", content="").json()["row"][2] == "special"


@pytest.mark.parametrize(
    "text", ["", "a", "the hen then met the ten men", "aaaa 你好你好", "x" * 200]
)
def test_training_steps_match_train(text: str) -> None:
    found = client(BYTES).post("/training", content=text).json()
    states = found["states"]
    assert [tuple(state["pairs"][0][:2]) for state in states if state["pairs"]] == [
        *Tokenizer.train(text, 400).merges
    ]
    assert states[-1]["pairs"] == []
    assert states[0]["tokens"] == len(text.encode())
    assert states[-1]["tokens"] == Tokenizer.train(text, 400).count(text)


def test_long_training_text_is_refused() -> None:
    answer = client(BYTES).post("/training", content="x" * 1001)
    assert (answer.status_code, answer.text) == (413, "a text may have 1000 bytes")


def test_training_ends_after_some_steps() -> None:
    text = "".join(chr(code) for code in range(0x4E00, 0x4E00 + 333))
    assert len(client(BYTES).post("/training", content=text).json()["states"]) == MAX_STEPS + 1


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/explain?at=9", "at is 9, but the text has fewer tokens"),
        ("/explain?at=16001", "at must be a number from 0 to 16000"),
        ("/vocabulary?sort=x", "sort must be one of rank, length, script, uses"),
        ("/vocabulary?show=x", "show must be one of all, used, unused, parts"),
        ("/vocabulary?find=" + "x" * 101, "find may have 100 characters"),
        ("/token?id=-1", "id must be a number from 0 to 999999999"),
        ("/ids?model=1", "model must be a number from 0 to 0"),
    ],
    ids=lambda value: value[:20],
)
def test_invalid_question_is_refused(path: str, reason: str) -> None:
    answer = client(BYTES).post(path, content="abc")
    assert (answer.status_code, answer.text) == (400, reason)


# The replay


def test_long_replay_ends_early() -> None:
    found = client(BYTES).post("/stream", content="a" * 20_000).json()
    assert (len(found["steps"]), found["tokens"], found["rest"]) == (MAX_SHOWN, 20_000, "")


def test_replay_decodes_each_token_alone_and_streamed() -> None:
    assert client(BYTES).post("/stream", content="aé\n").json() == {
        "tokens": 4,
        "steps": [
            [97, "61", "a", "a", ""],
            [195, "C3", "\ufffd", "", "C3"],
            [169, "A9", "\ufffd", "é", ""],
            [10, "0A", "\n", "\n", ""],
        ],
        "rest": "",
    }


# The vocabulary that the page has trained


def test_trained_vocabulary_is_one_more_model() -> None:
    browser = client(BYTES)
    learnt = Tokenizer.train("the hen then", 258)
    query = "corpus=the%20hen%20then&merges=2"
    one, two = browser.post(f"/tokens?{query}", content="then").json()
    assert (one["tokens"], two["tokens"]) == (4, learnt.count("then"))
    assert browser.post(f"/ids?{query}&model=1", content="hen").json() == learnt.encode("hen")
    row = browser.post(f"/token?{query}&model=1&id=257", content="then").json()["row"]
    assert row[1] == learnt.token_bytes(257).hex(" ").upper()
    assert len(browser.post("/tokens", content="then").json()) == 1


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("corpus=a&merges=101", "merges must be a number from 0 to 100"),
        ("corpus=a&merges=-1", "merges must be a number from 0 to 100"),
        ("corpus=a&merges=1e2", "merges must be a number from 0 to 100"),
        ("corpus=a&merges=" + "1" * 5000, "merges must be a number from 0 to 100"),
        ("corpus=a&merges=٣", "merges must be a number from 0 to 100"),
        ("corpus=" + "é" * 501, "corpus may have 1000 bytes"),
        ("model=1", "model must be a number from 0 to 0"),
        ("model=x", "model must be a number from 0 to 0"),
        ("ordinary=2", "ordinary must be a number from 0 to 1"),
    ],
    ids=lambda value: value[:20],
)
def test_invalid_query_is_refused(query: str, reason: str) -> None:
    answer = client(BYTES).post(f"/stream?{query}", content="abc")
    assert (answer.status_code, answer.text) == (400, reason)


# Bounds

SLOW_PATTERN = {"Regex": "a+'"}
SLOW_STAGES = {
    "a pattern whose matches go": {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": SLOW_PATTERN, "behavior": "Removed", "invert": False},
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": False,
                },
            ],
        }
    },
    "a normalizer": {"normalizer": {"type": "Replace", "pattern": SLOW_PATTERN, "content": "x"}},
}


@pytest.mark.parametrize("fields", SLOW_STAGES.values(), ids=SLOW_STAGES)
def test_each_stage_has_a_bound_on_time(
    fields: Mapping[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "tokenizer.json"
    BYTES.save(path)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | fields), "utf-8")
    monkeypatch.setattr(app, "MAX_PATTERN_SECONDS", 0.1)
    answer = client(Tokenizer.load(path)).post("/ids", content=b"a" * 99_999)
    assert (answer.status_code, answer.text) == (
        400, "the pattern takes too long for this text; shorten it"
    )  # fmt: skip


@pytest.mark.parametrize(
    "path",
    slow_except(["/tokens", "/ids", "/explain", "/vocabulary", "/stream"], "/tokens", "/ids"),
)
def test_text_of_max_bytes_is_accepted(path: str) -> None:
    assert client(BYTES).post(path, content=b"a" * MAX_BYTES).status_code == 200


@pytest.mark.parametrize("path", ["/tokens", "/ids", "/explain", "/vocabulary", "/stream"])
def test_longer_text_is_refused(path: str) -> None:
    answer = client(BYTES).post(path, content=b"a" * (MAX_BYTES + 1))
    assert (answer.status_code, answer.text) == (413, f"a text may have {MAX_BYTES} bytes")


def test_text_of_unknown_length_is_bounded() -> None:
    taken = 0

    def parts() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(4000):
            taken += 1
            yield b"a" * 1024

    # The client buffers some parts, so the number of parts is not exact.
    assert client(BYTES).post("/tokens", content=parts()).status_code == 413


@pytest.mark.parametrize("body", [b"a\xff", b"\xed\xa0\x80", b"\xf0\x9f"])
def test_invalid_utf8_is_refused(body: bytes) -> None:
    answer = client(BYTES).post("/tokens", content=body)
    assert (answer.status_code, answer.text) == (400, "the body is not UTF-8")


# Hosts and origins


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:8765", "localhost:1", "LOCALHOST", "[::1]:8765", "127.1.2.3"]
)
def test_names_of_this_machine_are_served(host: str) -> None:
    assert client(BYTES).get("/models", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "example.org",
        "example.org:8765",
        "192.168.1.2",
        "localhost.example.org",
        "127.0.0.1.example.org",
        "[::1",
        "0.0.0.0",
        "",
        "evil.com@127.0.0.1",
        "a\\@localhost",
        "localhost/",
        "localhost#",
        "localhost:80:80",
        "[127.0.0.1]x",
    ],
)
def test_other_hosts_are_refused(host: str) -> None:
    answer = client(BYTES).post("/tokens", headers={"Host": host}, content="secret")
    assert (answer.status_code, answer.text) == (421, "this host is not served here\n")


def test_any_host_is_served_without_loopback() -> None:
    browser = client(BYTES, loopback=False, url="http://example.org:8765")
    assert browser.get("/models").status_code == 200


@pytest.mark.parametrize("origin", ["http://example.org", "null", "http://127.0.0.1:9999"])
@pytest.mark.parametrize("loopback", [True, False])
def test_other_origins_are_refused(origin: str, loopback: bool) -> None:
    browser = client(BYTES, loopback=loopback)
    answer = browser.post("/tokens", headers={"Origin": origin}, content="a")
    assert (answer.status_code, answer.text) == (403, "other sites are not served here\n")
    assert browser.post("/tokens", headers={"Origin": HOME}, content="a").status_code == 200


def test_two_origins_are_refused() -> None:
    headers = [("Origin", HOME), ("Origin", "http://example.org")]
    for order in (headers, headers[::-1], headers[:1] * 2):
        answer = client(BYTES).post("/tokens", headers=order, content="a")
        assert (answer.status_code, answer.text) == (403, "other sites are not served here\n")


@pytest.mark.parametrize("origin", ["null", "http://", "https://", ""])
def test_empty_host_has_no_origin(origin: str) -> None:
    browser = client(BYTES, loopback=False)
    answer = browser.post("/tokens", headers={"Host": "", "Origin": origin}, content="a")
    assert answer.status_code in (403, 421)


# The command


@contextmanager
def served(
    *arguments: str,
    command: tuple[str, ...] = (),
    variables: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[tuple[Popen[bytes], int, str]]:
    """Start the command; yield its process, its port, and its first message."""
    # Children of a process that ignores the signal would ignore it too.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with start("serve", *arguments, command=command, variables=variables) as process:
            try:
                assert process.stderr is not None
                said = process.stderr.readline().decode()
                port = int(said.rpartition(":")[2].strip("/\n"))
                yield process, port, said
            finally:
                process.kill()
    finally:
        signal.signal(signal.SIGINT, before)


def interrupted(process: Popen[bytes]) -> tuple[int, bytes]:
    """Send Ctrl-C; return the exit code and the rest of standard error."""
    assert process.stderr is not None
    process.send_signal(signal.SIGINT)
    code = process.wait(timeout=30)
    return code, process.stderr.read()


def connected(port: int, request: str) -> socket.socket:
    """Return a connection after sending this beginning of a request."""
    connection = socket.create_connection(("127.0.0.1", port), timeout=10)
    connection.sendall(request.replace("\n", "\r\n").encode())
    return connection


def post(path: str, length: int) -> str:
    """Return the head of a request with a body of `length` bytes."""
    return f"POST {path} HTTP/1.1\nHost: localhost\nContent-Length: {length}\n\n"


def received(connection: socket.socket, text: bytes) -> bytes:
    """Return the bytes that arrive on a connection, up to and with `text`."""
    data = b""
    while text not in data:
        some = connection.recv(1 << 16)
        assert some, data
        data += some
    return data


@posix_only
def test_leaving_and_ctrl_c_are_no_errors() -> None:
    """Browsers leave at every moment; another one stays but no longer reads."""
    Path("other").mkdir()
    TOKENIZER.save("other/model.json")
    arguments = ("--model", "model.json", "--model", "other/model.json", "--port", "0")
    with served(*arguments) as (process, port, said):
        assert said == (
            f"bpetite: serving model.json, other/model.json at http://127.0.0.1:{port}/{os.linesep}"
        )
        refused = connected(port, post("/tokens", 10**10))
        assert received(refused, b"bytes").startswith(b"HTTP/1.1 413 ")
        refused.close()

        in_the_body = connected(port, post("/tokens", 1000) + "half of")
        at_once = connected(port, post("/stream", 3) + "aé")
        in_the_answer = connected(port, post("/ids", 999_999) + "abc" * 333_333)
        received(in_the_answer, b"[")
        for connection in (in_the_body, at_once, in_the_answer):
            reset = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            connection.close()

        reading_no_more = connected(port, post("/ids", 1_999_998) + "abc" * 666_666)
        received(reading_no_more, b"[")
        started = time.monotonic()
        assert interrupted(process) == (130, b"bpetite: interrupted\n")
        assert time.monotonic() - started < 20  # it does not wait for the reader
        reading_no_more.close()


HASTY = (
    sys.executable,
    "-c",
    "import sys; from bpetite._cli import main; from bpetite._web import app, server; "
    "server.MAX_HEAD_SECONDS = app.MAX_BODY_SECONDS = app.MAX_PATTERN_SECONDS = 0.5; "
    "main(sys.argv[1:])",
)
"""The command, with half a second for the head and the body of a request, and for a pattern."""


SLOW = Tokenizer.train("ab ab", 258, pattern=r"\w+(?=')|[\s\S]")
"""A tokenizer with a pattern that takes hours for some megabytes of letters."""


@posix_only
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_serve_during_a_slow_pattern(number: int) -> None:
    SLOW.save("slow.json")
    with served("--model", "slow.json", "--port", "0") as (process, port, _), ExitStack() as stack:
        for path in ("/ids", "/tokens"):
            connection = stack.enter_context(connected(port, post(path, MAX_BYTES)))
            connection.sendall(b"a" * MAX_BYTES)
        models(port)
        time.sleep(0.5)  # both workers are in the pattern
        process.send_signal(number)
        code = process.wait(timeout=2)
        assert process.stderr is not None
        interrupted = (130, [b"bpetite: interrupted"])
        expected = interrupted if number == signal.SIGINT else (-number, [])
        said = process.stderr.read().splitlines()
        assert (code, [line for line in said if b"by `regex`" not in line]) == expected


def test_slow_pattern_is_refused_and_others_are_served() -> None:
    SLOW.save("slow.json")
    arguments = ("--model", "slow.json", "--model", "model.json", "--port", "0")
    with ExitStack() as stack:
        _, port, _ = stack.enter_context(served(*arguments, command=HASTY))
        slow = [stack.enter_context(connected(port, post("/ids", 99_999))) for _ in range(40)]
        for connection in slow:
            connection.sendall(b"a" * 99_999)
        answer = stack.enter_context(connected(port, post("/ids?model=1", 2) + "ab"))
        assert received(answer, b"]").startswith(b"HTTP/1.1 200 ")
        for connection in slow:
            assert received(connection, b"shorten it").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "beginning",
    [
        pytest.param("", id="nothing", marks=pytest.mark.slow),
        pytest.param("GET /mod", id="request line", marks=pytest.mark.slow),
        pytest.param("GET /models HTTP/1.1\nHost: localhost\n", id="head", marks=pytest.mark.slow),
        pytest.param(post("/tokens", 9) + "half", id="body"),
    ],
)
def test_half_open_connections_do_not_block_others(beginning: str) -> None:
    arguments = ("--model", "model.json", "--port", "0")
    with ExitStack() as stack:
        _, port, _ = stack.enter_context(served(*arguments, command=HASTY))
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connected(port, beginning))
        deadline = time.monotonic() + 10
        while not models(port).startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def test_slow_body_is_refused_with_408() -> None:
    arguments = ("--model", "model.json", "--port", "0")
    half = post("/tokens", 9) + "half"
    with served(*arguments, command=HASTY) as (_, port, _), connected(port, half) as connection:
        assert received(connection, b"took too long").startswith(b"HTTP/1.1 408 ")
        assert connection.recv(1) == b""


def test_second_head_of_a_connection_has_a_deadline() -> None:
    arguments = ("--model", "model.json", "--port", "0")
    get = "GET /models HTTP/1.1\nHost: localhost\n"
    with served(*arguments, command=HASTY) as (_, port, _), connected(port, get + "\n") as again:
        received(again, b"maxBytes")
        again.sendall(get.encode())
        while again.recv(1 << 16):  # without a deadline, this times out
            pass


def models(port: int) -> bytes:
    """Return the answer to a request for the models, or its beginning."""
    with connected(port, "GET /models HTTP/1.1\nHost: localhost\n\n") as connection:
        return connection.recv(1 << 16)


def test_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = ("serve", "--port", str(port))
        results = [
            in_process(*command, variables={"BPETITE_MODEL": "model.json"}),
            # --model replaces the variable, and adds no second model.
            in_process(*command, "--model=model.json", variables={"BPETITE_MODEL": "none.json"}),
        ]
    assert results == [failure(f"port {port} is in use; --port 0 takes any free port")] * 2


def test_unknown_host_is_named() -> None:
    result = in_process("serve", "--model", "model.json", "--host", "no.such.host.invalid")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: cannot listen at no.such.host.invalid, port 8765: ")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_missing_packages_are_named(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == missing]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, missing, None)
    for name in ("bpetite._web.app", "bpetite._web.server"):
        monkeypatch.delitem(sys.modules, name)
    result = in_process("serve", "--model", "model.json")
    assert (result.code, result.out, len(result.err)) == (1, b"", 1)
    assert result.err[0].startswith("bpetite: serve needs Starlette and uvicorn (")
    assert result.err[0].endswith("): pip install starlette uvicorn")


def test_help_names_all_packages_of_the_extra() -> None:
    """The extra's own name does not work from a clone: bpetite may not be on PyPI."""
    extra = [line for line in requires("bpetite") or [] if 'extra == "web"' in line]
    names = re.findall(r"^[\w-]+", "\n".join(extra), re.MULTILINE)
    help = in_process("serve", "--help").out.decode()
    assert sorted(names) == ["starlette", "uvicorn"]
    assert (
        f"\nThis verb needs Starlette and uvicorn: pip install {' '.join(sorted(names))}\n" in help
    )


def test_page_shows_the_tokens_of_inspect() -> None:
    (found,) = client(TOKENIZER).post("/tokens", content=TEXT).json()
    shown = in_process("inspect", "--model", "model.json", "--text", TEXT).out.decode()
    view = shown.splitlines()[0]
    assert "|".join(group[0] for group in found["groups"]) == view
