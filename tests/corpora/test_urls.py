"""Files of object stores give the documents, and receive the token files, of local ones."""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import traceback
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from hypothesis import settings
from support.cli import failure, in_process
from support.corpora import COMPRESSIONS, arrow, jsonl, parquet
from support.engines import once
from support.examples import slow_except

from bpetite import Tokenizer
from bpetite.corpora import (
    TOKEN_FORMATS,
    BadDocumentError,
    Corpus,
    Part,
    finish,
    plan,
    tokenize,
    tokenize_part,
    verify,
)
from bpetite.corpora._storage import public
from bpetite.corpora._verify import first_documents

pytestmark = once

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("upath")

TEXTS = [f"text {number} of the hen, 你好 🙂\n" for number in range(100)]
TOKENIZER = Tokenizer.train("".join(TEXTS), 300)
END = "<|endoftext|>"

FILES = {
    "texts.txt": "".join(TEXTS).encode(),
    "texts.jsonl": jsonl(TEXTS),
    "texts.parquet": parquet(TEXTS),
    "texts.arrow": arrow(TEXTS),
    "stream.arrow": arrow(TEXTS, is_file=False),
}


@pytest.fixture
def memory() -> Iterator[str]:
    """A folder in the memory of this process."""
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    fsspec.filesystem("memory").store.clear()


def put(url: str, data: bytes) -> str:
    """Write an object; return its URL."""
    with fsspec.open(url, "wb") as file:
        file.write(data)
    return url


def names_below(url: str) -> list[str]:
    """Return the names of all objects below a URL."""
    files, root = fsspec.url_to_fs(url, use_listings_cache=False)
    return sorted(name.removeprefix(f"{root}/") for name in files.find(root))


def content(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest without the paths of the sources, and samples of local ones."""
    for part in manifest["parts"]:
        for source in part["sources"]:
            del source["path"], source["sample"]
    return manifest


# Input


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("name", FILES)
def test_a_url_has_the_documents_of_a_file(
    name: str, suffix: str, memory: str, tmp_path: Path
) -> None:
    if suffix and name == "texts.parquet":
        pytest.skip("Parquet is not compressed as a whole")
    data = COMPRESSIONS[suffix](FILES[name])
    path = tmp_path / (name + suffix)
    path.write_bytes(data)
    url = put(f"{memory}/{name}{suffix}", data)
    assert list(Corpus(url)) == list(Corpus(path))
    assert list(Corpus(path.as_uri())) == list(Corpus(path))
    if not suffix:
        parts = [list(part) for part in Corpus(url).parts(1000)]
        assert parts == [list(part) for part in Corpus(path).parts(1000)]


def test_a_text_of_a_url_is_read_in_segments(memory: str) -> None:
    url = put(f"{memory}/a.txt", "é".encode() * 5000)
    corpus = Corpus(url, on_bad="skip")
    segments = [(bytes(batch.data), is_end) for batch, is_end in corpus.segments(batch_bytes=999)]
    assert b"".join(data for data, _ in segments) == "é".encode() * 5000
    assert [is_end for _, is_end in segments] == [False] * (len(segments) - 1) + [True]


def test_folders_and_globs_of_urls_are_sorted_files(memory: str) -> None:
    for name in ("b.txt", "a.txt", "sub/c.txt", "_SUCCESS", ".hidden/d.txt", "sub/_logs/e.txt"):
        put(f"{memory}/{name}", name.encode())
    assert list(Corpus(memory)) == ["a.txt", "b.txt", "sub/c.txt"]
    assert list(Corpus(f"{memory}/*.txt")) == ["a.txt", "b.txt"]
    assert list(Corpus([f"{memory}/sub", f"{memory}/b.txt"])) == ["sub/c.txt", "b.txt"]
    assert Corpus(f"{memory}/b.txt").files[0].path == f"{memory}/b.txt"


@pytest.mark.parametrize("name", ["none.txt", "*.txt", "none/"])
def test_a_missing_url_is_named(name: str, memory: str) -> None:
    put(f"{memory}/a.jsonl", b"")
    with pytest.raises(FileNotFoundError) as failure:
        Corpus(f"{memory}/{name}")
    assert failure.value.filename == f"{memory}/{name}"


def test_an_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(ValueError, match="nonsense"):
        Corpus("nonsense://bucket/a.txt")


@pytest.mark.parametrize("error", [NotImplementedError("listing"), RuntimeError("no credentials")])
def test_an_error_of_a_store_becomes_one_of_the_system(
    error: Exception, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The libraries of stores have errors of their own, which the command line does not know."""

    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(type(fsspec.filesystem("memory")), "info", fail)
    with pytest.raises(OSError, match=f"{type(error).__name__}: {error}") as failure:
        Corpus(f"{memory}/a.txt")
    assert failure.value.filename == f"{memory}/a.txt"


# Output


@pytest.mark.parametrize("format", slow_except([*TOKEN_FORMATS], "megatron", "parquet"))
def test_token_files_of_a_url_match_a_folder(format: str, memory: str, tmp_path: Path) -> None:
    path = tmp_path / "texts.jsonl"
    path.write_bytes(FILES["texts.jsonl"])
    options: dict[str, Any] = {"end": END, "part_bytes": 1500, "validation": 0.1}
    local = tokenize(Corpus(path), TOKENIZER, tmp_path / "tokens", format, **options)
    remote = tokenize(Corpus(path), TOKENIZER, f"{memory}/tokens", format, **options)
    assert remote == local
    found = [
        str(found.relative_to(tmp_path / "tokens"))
        for found in (tmp_path / "tokens").rglob("*")
        if found.is_file()
    ]
    assert names_below(f"{memory}/tokens") == sorted(found)
    assert verify(f"{memory}/tokens", TOKENIZER, deep=True) == []
    heads = [
        list(first_documents(folder, 3)) for folder in (tmp_path / "tokens", f"{memory}/tokens")
    ]
    assert heads[0] == heads[1]
    assert {*heads[0]} <= {f"{text}{END}" for text in TEXTS}


def test_finished_parts_of_a_url_are_skipped(memory: str) -> None:
    corpus = Corpus(put(f"{memory}/texts.jsonl", FILES["texts.jsonl"]))
    folder = f"{memory}/tokens"
    parts = plan(corpus, TOKENIZER, folder, "megatron", part_bytes=1500)
    receipts = [tokenize_part(part) for part in parts[:2]]
    with pytest.raises(ValueError, match=f"{len(parts) - 2} of {len(parts)} parts are not done"):
        finish(folder)
    assert verify(folder)[1:] == [
        f"{len(parts) - 2} of {len(parts)} parts are missing; the first is part 2"
    ]
    (shard,) = receipts[0]["shards"]
    (size,) = (file["bytes"] for file in shard["files"] if file["name"] == "train_00000.bin")
    put(f"{folder}/train_00000.bin", b"k" * size)
    assert [tokenize_part(part) for part in parts][:2] == receipts
    finish(folder)
    assert len(verify(folder)) == 1
    assert "train_00000.bin: damaged" in verify(folder)[0]


def test_a_folder_of_another_run_is_refused_by_url(memory: str) -> None:
    corpus = Corpus(put(f"{memory}/texts.jsonl", FILES["texts.jsonl"]))
    tokenize(corpus, TOKENIZER, f"{memory}/tokens", "megatron")
    with pytest.raises(ValueError, match="made with another tokenizer"):
        tokenize(corpus, Tokenizer.train("other", 260), f"{memory}/tokens", "megatron")
    put(f"{memory}/full/notes.txt", b"mine")
    with pytest.raises(FileExistsError, match="not a folder of token files"):
        tokenize(corpus, TOKENIZER, f"{memory}/full", "megatron")
    assert names_below(f"{memory}/full") == ["notes.txt"]


def test_nothing_stays_in_the_temporary_folder(
    memory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    corpus = Corpus(put(f"{memory}/texts.jsonl", FILES["texts.jsonl"] + b"bad\n"))
    with pytest.raises(ValueError, match="line 101"):
        tokenize(corpus, TOKENIZER, f"{memory}/tokens", "megatron")
    assert os.listdir(tmp_path) == []
    assert names_below(f"{memory}/tokens") == [".bpetite/plan.json", "vocabulary.json"]


# Errors in the middle of a file


class StoreError(Exception):
    """An error of a store's library, such as botocore's `ClientError`."""


STORE_ERRORS = [
    StoreError("slow\ndown"),
    OSError("no server"),
    EOFError(),
    ValueError("range"),
    KeyError("ETag"),
    TimeoutError(),
    PermissionError("expired"),
    BrokenPipeError(errno.EPIPE, "Broken pipe"),
]


class Breaks:
    """The store in the memory of this process; the requests of open files are counted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.requests = 0
        self.error: Exception | None = None
        self.last_request = 0
        store = type(fsspec.filesystem("memory"))
        open_in_memory = store._open

        def _open(files: Any, path: str, mode: str = "rb", **_: object) -> Any:
            if mode == "rb":
                return self._reader(files, path, files.cat_file(path))
            file = open_in_memory(files, path, mode)
            write = self._counted(file.write)

            def write_or_drop(data: bytes) -> object:
                try:
                    return write(data)
                except Exception:
                    del files.store[file.path]  # as object stores do with an upload that fails
                    raise

            file.write = write_or_drop
            return file

        patch.setattr(store, "_open", _open)

    def at(self, request: int, error: Exception) -> None:
        """Raise an error at a request, counted from 0, and at all later ones."""
        self.requests, self.last_request, self.error = 0, request, error

    def never(self) -> None:
        """Count requests from 0 on."""
        self.requests, self.error = 0, None

    def _counted(self, request: Any) -> Any:
        def counted(*arguments: Any) -> Any:
            self.requests += 1
            if self.error is not None and self.requests > self.last_request:
                raise self.error
            return request(*arguments)

        return counted

    def _reader(self, files: Any, path: str, data: bytes) -> Any:
        buffered: Any = fsspec.spec.AbstractBufferedFile
        file = buffered(files, path, block_size=512, cache_type="none", size=len(data))
        file.cache.fetcher = self._counted(lambda start, end: data[start:end])
        return file


@pytest.fixture
def breaks(monkeypatch: pytest.MonkeyPatch) -> Breaks:
    return Breaks(monkeypatch)


@pytest.mark.parametrize("suffix", slow_except(COMPRESSIONS, "", ".gz"))
@pytest.mark.parametrize("name", FILES)
def test_an_error_at_any_read_names_the_url(
    name: str, suffix: str, memory: str, breaks: Breaks
) -> None:
    """No file counts as bad because its store fails: the next run may read it."""
    if suffix and name == "texts.parquet":
        pytest.skip("Parquet is not compressed as a whole")
    url = put(f"{memory}/{name}{suffix}", COMPRESSIONS[suffix](FILES[name]))
    breaks.never()
    assert list(Corpus(url, on_bad="skip")) == list(Corpus(url))
    error = EOFError("closed")
    n_requests = breaks.requests // 2
    for request in range(0, n_requests, max(1, n_requests // settings().max_examples)):
        breaks.at(request, error)
        with pytest.raises(OSError, match="EOFError: closed; check the connection") as failure:
            list(Corpus(url, on_bad="skip"))
        assert failure.value.filename == url
        assert failure.value.__cause__ is error


def test_an_error_at_any_write_names_the_url(memory: str, breaks: Breaks) -> None:
    corpus = Corpus(put(f"{memory}/texts.jsonl", FILES["texts.jsonl"]))
    options: dict[str, Any] = {"part_bytes": 3000}
    expected = tokenize(corpus, TOKENIZER, f"{memory}/expected", "megatron", **options)
    breaks.never()
    tokenize(corpus, TOKENIZER, f"{memory}/counted", "megatron", **options)
    for request in range(0, breaks.requests, max(1, 100 // settings().max_examples)):
        folder = f"{memory}/{request}"
        breaks.at(request, StoreError("slow down"))
        with pytest.raises(OSError, match="StoreError: slow down; check the conn") as failure:
            tokenize(corpus, TOKENIZER, folder, "megatron", **options)
        assert failure.value.filename.startswith(memory)
        breaks.never()
        assert tokenize(corpus, TOKENIZER, folder, "megatron", **options) == expected


@pytest.mark.parametrize("error", STORE_ERRORS, ids=lambda error: type(error).__name__)
def test_a_command_tells_an_error_of_a_store_in_one_line(
    error: Exception, memory: str, tmp_path: Path, breaks: Breaks
) -> None:
    model = tmp_path / "model.json"
    TOKENIZER.save(model)
    url = put(f"{memory}/texts.jsonl", FILES["texts.jsonl"])
    breaks.at(1, error)
    result = in_process("count", url, "--model", str(model))
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    assert result == failure(f"{url}: {what}; check the connection and your access, then try again")


def test_files_of_the_desktop_are_left_out(memory: str) -> None:
    put(f"{memory}/in/a.txt", b"a")
    for name in ("desktop.ini", "Thumbs.db", ".DS_Store"):
        put(f"{memory}/in/{name}", b"no document")
    corpus = Corpus(f"{memory}/in")
    assert list(corpus) == ["a"]
    tokenize(corpus, TOKENIZER, f"{memory}/out", "megatron")
    put(f"{memory}/out/.DS_Store", b"")
    assert verify(f"{memory}/out", TOKENIZER) == []


# Secrets of URLs


SHORT = {"/part.jsonl": 206, "/whole.jsonl": 200}
"""Files that a server sends shorter than it announces, and the status of its answers."""


@contextmanager
def serving(handler: Any) -> Iterator[str]:
    """Run a server in a thread; give its address without a scheme."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as httpd:
        # Of the seconds between two looks, `shutdown` waits for half on average.
        threading.Thread(target=httpd.serve_forever, args=(0.005,), daemon=True).start()
        yield f"127.0.0.1:{httpd.server_port}"
        httpd.shutdown()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A server of a folder, which asks for a user and a signature; its address without a scheme."""
    pytest.importorskip("aiohttp")
    (tmp_path / "served").mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments, directory=str(tmp_path / "served"))

        def send_head(self) -> Any:
            self.path, _, query = self.path.partition("?")
            if self.path == "/moved" and self.command == "GET":
                self.send_response(302)
                self.send_header("Location", "/none?name='a(1)'&x=secret")
                self.end_headers()
                return None
            if self.path == "/moved":
                self.path, query = "/a.jsonl", "sig="
            if self.path in SHORT:
                body = b'{"text": "ten"}\n' if self.command == "GET" else b""
                start = int(self.headers.get("Range", "bytes=0-")[6:].partition("-")[0])
                if SHORT[self.path] == 206:
                    body = body[start:]
                self.send_response(SHORT[self.path])
                self.send_header("Accept-Ranges", "bytes")
                if SHORT[self.path] == 206:
                    self.send_header("Content-Range", f"bytes {start}-31/32")
                self.send_header("Content-Length", str(32 if self.command == "HEAD" else len(body)))
                self.end_headers()
                self.wfile.write(body)
                return None
            if "sig=" not in query:
                self.send_error(403, f"no signature in ?{query}")
                return None
            return super().send_head()

        def log_message(self, *_: object) -> None: ...

    with serving(Handler) as address:
        yield address


@pytest.mark.parametrize("path", SHORT)
@pytest.mark.parametrize("on_bad", ["raise", "skip"])
def test_a_file_that_ends_before_its_size_is_an_error(server: str, on_bad: Any, path: str) -> None:
    corpus = Corpus(f"http://{server}{path}?sig=secret", on_bad=on_bad)
    with pytest.raises(OSError, match=rf"{path}: the server sent 16 of 32 bytes from byte 0 on, "):
        print([*corpus])


def test_a_server_that_sends_no_ranges_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block of a file comes without ranges too."""
    pytest.importorskip("aiohttp")
    monkeypatch.setattr("bpetite.corpora._storage._READ_AHEAD_BYTES", 1 << 10)
    (tmp_path / "a.jsonl").write_bytes(jsonl(TEXTS) * 100)
    handler = partial(QuietHandler, directory=str(tmp_path))
    with serving(handler) as address:
        url = f"http://{address}/a.jsonl"
        with pytest.raises(OSError, match="does not send parts of a file; download it") as caught:
            list(Corpus(url))
    assert url in str(caught.value)
    assert "try again" not in str(caught.value)


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def test_a_request_that_is_refused_is_no_missing_file(server: str) -> None:
    with pytest.raises(FileNotFoundError):
        Corpus(f"http://{server}/none.jsonl?sig=one")
    with pytest.raises(OSError, match="403; check the connection and your access") as caught:
        Corpus(f"http://{server}/a.jsonl?name=secret")
    assert not isinstance(caught.value, FileNotFoundError)
    assert "secret" not in str(caught.value)
    with pytest.raises(OSError, match="check the connection and your access") as caught:
        Corpus("http://127.0.0.1:9/a.jsonl")
    assert not isinstance(caught.value, FileNotFoundError)


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_folder_has_no_secrets_of_urls(server: str, tmp_path: Path) -> None:
    (tmp_path / "served/a.jsonl").write_bytes(FILES["texts.jsonl"] + b"bad\n")
    url, public = f"http://me:secret@{server}/a.jsonl?sig=secret", f"http://{server}/a.jsonl"
    with pytest.raises(BadDocumentError, match=f"^{public}: line 101") as caught:
        list(Corpus(url))
    assert "secret" not in repr(caught.value.document)
    corpus, folder = Corpus(url, on_bad="skip"), tmp_path / "tokens"
    manifest = tokenize(corpus, TOKENIZER, folder, "megatron", workers=2, validation=0.1)
    assert (manifest["totals"]["documents"], manifest["totals"]["bad"]) == (100, 1)
    assert manifest["parts"][0]["sources"][0]["path"] == public
    assert b"secret" not in all_bytes(folder)
    assert public.encode() in all_bytes(folder / ".bpetite/bad")
    assert "secret" not in " ".join(verify(folder, deep=True))


def test_a_folder_has_no_user_of_a_url(memory: str, tmp_path: Path) -> None:
    url = f"memory://me:secret@{memory.removeprefix('memory://')}/a.jsonl"
    put(url, FILES["texts.jsonl"] + b"bad\n")
    folder = tmp_path / "tokens"
    manifest = tokenize(Corpus(url, on_bad="skip"), TOKENIZER, folder, "megatron")
    assert manifest["totals"]["bad"] == 1
    assert b"secret" not in all_bytes(folder)
    with pytest.raises(FileNotFoundError) as caught:
        Corpus(url + "x")
    assert caught.value.filename == f"{memory}/a.jsonlx"


def test_a_run_goes_on_with_a_new_signature(server: str, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"served/{name}.jsonl").write_bytes(FILES["texts.jsonl"])

    def planned(signature: str, folder: str) -> list[Part]:
        urls = [f"http://{server}/{name}.jsonl?sig={signature}" for name in "ab"]
        options: dict[str, Any] = {"part_bytes": len(FILES["texts.jsonl"]), "validation": 0.1}
        return plan(Corpus(urls), TOKENIZER, tmp_path / folder, "megatron", **options)

    first, *_ = planned("one", "tokens")
    assert "sig=one" in first.sources[0]["path"]
    tokenize_part(Part(*json.loads(json.dumps(first))))
    again = planned("two", "tokens")
    assert [tokenize_part(part)["part"] for part in again] == [0, 1]
    for part in planned("three", "other"):
        tokenize_part(part)
    assert finish(tmp_path / "tokens") == finish(tmp_path / "other")


def test_urls_that_differ_in_the_query_alone_are_refused(server: str, tmp_path: Path) -> None:
    (tmp_path / "served/a.jsonl").write_bytes(FILES["texts.jsonl"])
    urls = [f"http://{server}/a.jsonl?sig=s&id={number}" for number in (7, 8)]
    assert len(list(Corpus(urls))) == 200
    with pytest.raises(ValueError, match=rf"^http://{server}/a\.jsonl: two inputs have this URL"):
        plan(Corpus(urls), TOKENIZER, tmp_path / "tokens", "megatron")
    assert plan(Corpus([urls[0]] * 2), TOKENIZER, tmp_path / "tokens", "megatron")


@pytest.mark.parametrize(
    "url",
    [
        "http://me:secret@{}/none?x=secret",
        "HTTP://me:secret@{}/none#secret",
        "http://me:a secret@{}/none",
        "http://{}/moved",
        "http://me:a::secret@{}/none",
        "http://me:a/secret@{}/none",
        "http://me:a?secret@{}/none",
        "http://me:a#secret@{}/none",
        "http://me:7#secret@{}/none",
        "http://me:7?secret@{}/none",
        "zip://a.jsonl::http://me:a  secret@{}/none.zip",
        "zip://a.jsonl::http://me:a\u2028secret@{}/none.zip",
        "zip://a.jsonl::http://{}/none.zip?sig=a  secret",
        "http://{}/none?sig=a::secret",
        "http://me:secret@[::1]:9/none?sig=secret",
        "zip://a.jsonl::http://me:secret@{}/none.zip?x=secret",
        "memory://none/a.jsonl?sig=secret",
        "file://me:secret@host/a.jsonl",
        "file://me:secret\u2100@host/a.jsonl",
        "ftp://me:secret@127.0.0.1:9/a.jsonl",
    ],
)
def test_errors_have_no_secrets_of_urls(url: str, server: str, tmp_path: Path) -> None:
    (tmp_path / "served/a.jsonl").write_bytes(FILES["texts.jsonl"])
    with pytest.raises((OSError, ValueError), match=r"[a-z]+:|Errno") as caught:
        list(Corpus(url.format(server)))
    words = "".join(traceback.format_exception(caught.value, chain=False)[-1:])
    assert "secret" not in words + str(caught.value) + repr(vars(caught.value))
    assert "secret" not in str(getattr(caught.value, "filename", ""))
    assert caught.value.__cause__ is None


def test_logs_of_programs_have_no_secrets(server: str, tmp_path: Path) -> None:
    (tmp_path / "served/a.jsonl").write_bytes(FILES["texts.jsonl"])
    corpus = Corpus(f"http://me:secret@{server}/a.jsonl?sig=secret")
    parts = plan(corpus, TOKENIZER, tmp_path / "tokens", "megatron")
    (file,) = corpus.files
    (span,) = file.spans(1 << 30)
    assert repr(span) == f"Span(path='http://{server}/a.jsonl', start=0, end={span.end})"
    assert "secret" not in repr([corpus, file, parts])
    assert f"'path': 'http://{server}/a.jsonl'" in repr(parts)


def test_files_in_an_archive_are_read_and_keep_their_names(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("a@b.jsonl", FILES["texts.jsonl"])
        archive.writestr("b@b.jsonl", FILES["texts.jsonl"])
    urls = [f"zip://{name}@b.jsonl::{(tmp_path / 'a.zip').as_uri()}" for name in "ab"]
    assert list(Corpus(urls)) == TEXTS * 2
    assert plan(Corpus(urls), TOKENIZER, tmp_path / "tokens", "megatron")


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/what?.jsonl",
        "s3://bucket/mail@host/a#1.jsonl",
        "http://host:8080/mail@host/a.jsonl",
        "http://[::1]:8080/mail@host/a.jsonl",
        "abfs://files@account/a.jsonl",
    ],
)
def test_names_without_secrets_stay_whole(url: str) -> None:
    assert public(url) == url


def test_a_folder_with_a_password_in_its_url_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(FILES["texts.jsonl"])
    url = "ftp://me:secret@127.0.0.1:9/tokens"
    for call in (
        lambda: plan(Corpus(tmp_path / "a.jsonl"), TOKENIZER, url, "megatron"),
        lambda: finish(url),
        lambda: verify(url),
    ):
        with pytest.raises(ValueError, match=r"^ftp://127\.0\.0\.1:9/tokens: .* a password"):
            call()


# A server on this machine


@pytest.fixture(scope="module")
def bucket() -> Iterator[str]:
    """A bucket of a server that speaks the protocol of S3."""
    moto = pytest.importorskip("moto.server")
    s3fs = pytest.importorskip("s3fs")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = moto.ThreadedMotoServer("127.0.0.1", port)
    server.start()
    variables = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("corpus")
        yield "s3://corpus"
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


@pytest.mark.slow  # the same calls read and write the other stores
@pytest.mark.filterwarnings("ignore")  # of the server and its libraries
def test_commands_read_and_write_a_store(bucket: str, tmp_path: Path) -> None:
    path, model = tmp_path / "texts.jsonl", tmp_path / "model.json"
    path.write_bytes(FILES["texts.jsonl"] * 20)
    TOKENIZER.save(model)
    url = put(f"{bucket}/in/texts.jsonl", path.read_bytes())
    options = ["--model", str(model), "--format", "megatron", "--part-bytes", "20000"]
    local, remote = tmp_path / "tokens", f"{bucket}/tokens"
    commands = [
        ("tokenize", str(path), *options, "--output", str(local)),
        ("tokenize", url, *options, "--output", remote, "--part", "1/2"),
        ("tokenize", url, *options, "--output", remote, "--part", "2/2"),
        ("tokenize", "--finish", remote),
        ("verify", remote),
    ]
    assert [in_process(*command).code for command in commands] == [0] * len(commands)
    manifests = [json.loads((local / "manifest.json").read_bytes()), finish(remote)]
    assert content(manifests[0]) == {"sha256": manifests[0]["sha256"], **content(manifests[1])}
    assert verify(remote, TOKENIZER, deep=True) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_processes_write_to_a_store_together(bucket: str) -> None:
    url = put(f"{bucket}/in2/texts.parquet", FILES["texts.parquet"])
    folder = f"{bucket}/tokens2"
    found = tokenize(Corpus(url), TOKENIZER, folder, "llmc", end=END, part_bytes=1000, workers=2)
    assert found["totals"]["documents"] == len(TEXTS)
    assert len(found["parts"]) > 2
    assert verify(folder, TOKENIZER, deep=True) == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_store_says_what_is_missing(bucket: str) -> None:
    with pytest.raises(FileNotFoundError) as failure:
        Corpus(f"{bucket}/none.jsonl")
    assert failure.value.filename == f"{bucket}/none.jsonl"
    corpus = Corpus(put(f"{bucket}/a.txt", b"a"))
    with pytest.raises(OSError, match="none"):
        tokenize(corpus, TOKENIZER, "s3://none/tokens", "megatron")
