"""Every input format gives its documents, compressed or not, in batches of every size."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest
from support.corpora import COMPRESSIONS, TEXTS, arrow, documents, jsonl, pa, parquet
from support.engines import quick_once
from support.times import best_time

from bpetite import Tokenizer
from bpetite.corpora import Batch, Corpus, tokenize, verify

pytestmark = quick_once

LINES = ["a", "", "b\r", "é", " "]

FILES = {
    "a.jsonl": (jsonl(TEXTS), TEXTS, {}),
    "a.ndjson": (jsonl(TEXTS), TEXTS, {}),
    "no-end.jsonl": (jsonl(TEXTS)[:-1], TEXTS, {}),
    "blank.jsonl": (b"\r\n" + jsonl(TEXTS).replace(b"\n", b"\n \n"), TEXTS, {}),
    "lines-by-content": (jsonl(TEXTS), TEXTS, {}),
    "body.jsonl": (jsonl(TEXTS, "body"), TEXTS, {"text_field": "body"}),
    "lines.json": (jsonl(TEXTS), TEXTS, {}),
    "array.json": (json.dumps([{"text": text} for text in TEXTS]).encode(), TEXTS, {}),
    "object.json": (json.dumps({"text": "a\nb"}, indent=2).encode(), ["a\nb"], {}),
    "objects.json": (b'\xef\xbb\xbf{\n"text": "a"}\n{"text":\n"b"}', ["a", "b"], {}),
    "empty.json": (b"[]", [], {}),
    "a.txt": ("".join(TEXTS).encode(), ["".join(TEXTS)], {}),
    "text-by-content": (b"{} ab", ["{} ab"], {}),
    "code.py": (b"\xef\xbb\xbfprint()\r\n", ["\ufeffprint()\r\n"], {}),
    "empty.txt": (b"", [""], {}),
    "lines.txt": ("\n".join(LINES).encode(), LINES, {"format": "lines"}),
    "ended.txt": ("\n".join([*LINES, ""]).encode(), LINES, {"format": "lines"}),
    "crlf.txt": (b"a\r\nb", ["a", "b"], {"separator": "\r\n"}),
    "separated.txt": ("<|e|>".join([*LINES, ""]).encode(), LINES, {"separator": "<|e|>"}),
    "overlapping.txt": (b"aaab", ["", "ab"], {"separator": "aa"}),
    "many.txt": (b"a" * 7, ["", "", "", "a"], {"separator": "aa"}),
    "file.arrow": (arrow(TEXTS), TEXTS, {}),
    "stream.arrow": (arrow(TEXTS, is_file=False), TEXTS, {}),
    "stream-by-content": (arrow(TEXTS, is_file=False), TEXTS, {}),
    "empty.arrow": (arrow([]), [], {}),
}

PARQUET = {
    "a.parquet": parquet(TEXTS),
    "parquet-by-content": parquet(TEXTS),
    "large.parquet": parquet(TEXTS, kind=pa.large_string()),
    "bytes.parquet": parquet(TEXTS, kind=pa.binary()),
    "dictionary.parquet": parquet(TEXTS, kind=pa.dictionary(pa.int32(), pa.string())),
    "view.parquet": parquet(TEXTS, kind=pa.string_view()),
}


def joined(segments: Iterable[tuple[Batch, bool]]) -> list[str]:
    """Return the documents of batches whose last document may go on in the next."""
    texts: list[str] = []
    is_open = False
    for (data, offsets, rows), is_complete in segments:
        found = documents(data, offsets)
        assert len(found) == len(rows) > 0
        if is_open:
            texts[-1] += found.pop(0)
        texts += found
        is_open = not is_complete
    assert not is_open
    return texts


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", FILES)
def test_a_file_gives_its_documents(name: str, compression: str, tmp_path: Path) -> None:
    data, expected, options = FILES[name]
    path = tmp_path / (name + compression)
    path.write_bytes(COMPRESSIONS[compression](data))
    lengths = (7, 1 << 20) if compression else (1, 7, 100, 1 << 20)
    check(Corpus(path, **options), expected, lengths)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", PARQUET)
def test_parquet_gives_its_documents(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PARQUET[name])
    check(Corpus(tmp_path / name), TEXTS)


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.large_binary()], ids=str)
def test_arrow_gives_its_documents(kind: object, tmp_path: Path) -> None:
    (tmp_path / "a.arrow").write_bytes(arrow(TEXTS, kind=kind))
    check(Corpus(tmp_path / "a.arrow"), TEXTS)


def check(
    corpus: Corpus, expected: list[str], lengths: tuple[int, ...] = (1, 7, 100, 1 << 20)
) -> None:
    for batch_bytes in lengths:
        batches = [*corpus.batches(batch_bytes=batch_bytes)]
        found = [text for data, offsets, _ in batches for text in documents(data, offsets)]
        assert found == expected
        assert all(len(offsets) - 1 == len(rows) for _, offsets, rows in batches)
        assert {(data.format, offsets.format) for data, offsets, _ in batches} <= {("B", "Q")}
        rows = [row for batch in batches for row in batch.rows]
        assert rows == sorted({*rows})
        sizes = len(expected), expected.count(""), len("".join(expected).encode())
        report = corpus.report
        assert (report.documents, report.empty, report.text_bytes) == sizes
        assert joined(corpus.segments(batch_bytes=batch_bytes)) == expected
        report = corpus.report
        assert (report.documents, report.empty, report.text_bytes) == sizes
    assert list(corpus) == expected


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "stream.arrow", "file.arrow"])
def test_standard_input_is_known_by_content(
    name: str, compression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, expected, _ = FILES[name]
    stdin = TextIOWrapper(BytesIO(COMPRESSIONS[compression](data)), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(Corpus("-")) == expected
    stdin.detach()


SHORT = [text[:9] for text in TEXTS]
"""Texts to read in parts of single bytes."""


@pytest.mark.parametrize(
    ("name", "data", "options"),
    [
        ("a.jsonl", jsonl(SHORT), {}),
        ("a.txt", "\n".join([*LINES, *SHORT]).encode(), {"format": "lines"}),
        ("a.parquet", parquet(TEXTS, row_group=2), {}),
        ("a.arrow", arrow(TEXTS, batch=2), {}),
    ],
)
def test_spans_of_any_size_give_all_documents(
    name: str, data: bytes, options: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    corpus = Corpus(tmp_path / name, **options)  # type: ignore[arg-type]
    (file,) = corpus.files
    whole = list(corpus)
    numbers = set()
    for part_bytes in [1, 2, *range(3, 30, 5), 100, 1000, 1 << 30]:
        spans = file.spans(part_bytes)
        numbers.add(len(spans))
        assert [text for span in spans for text in corpus.part([span])] == whole
    assert min(numbers) == 1
    assert max(numbers) >= 4


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse the name")
@pytest.mark.parametrize("name", ["a.jsonl", "a.parquet", "a.arrow"])
def test_a_path_need_not_be_utf8(name: str, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\xff")
    folder.mkdir()
    contents = {"a.jsonl": jsonl(TEXTS), "a.parquet": parquet(TEXTS), "a.arrow": arrow(TEXTS)}
    (folder / name).write_bytes(contents[name])
    corpus = Corpus(folder / name)
    assert list(corpus) == TEXTS
    tokenizer = Tokenizer.train(TEXTS, 260)
    for format in ("parquet", "olmo"):
        tokenize(corpus, tokenizer, folder / format, format, part_bytes=1_000, validation=0.5)
        assert verify(folder / format, deep=True) == []


def test_a_long_separator_takes_linear_time(tmp_path: Path) -> None:
    """Each byte of the text may begin a separator, up to its middle."""
    separator = "a" * 8000 + "b" + "a" * 8000
    text = "a" * 1_000_000
    path = tmp_path / "a.txt"
    path.write_text(text + separator + text)

    def seconds_of_run() -> float:
        start = time.perf_counter()
        assert list(Corpus(path, separator=separator)) == [text, text]
        return time.perf_counter() - start

    assert best_time(seconds_of_run, 2) < 2
