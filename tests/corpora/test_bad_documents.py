"""Nothing is lost silently: each bad document or file is an error, or is counted and named."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import os
import pickle
import re
import sqlite3
import struct
import tarfile
import time
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.corpora import (
    COMPRESSIONS,
    TEXTS,
    arrow,
    documents,
    gz,
    jsonl,
    pa,
    parquet,
    zstandard,
    zstd,
)
from support.engines import quick_once
from support.examples import slow_except
from support.programs import output_of, posix_only

from bpetite import Tokenizer
from bpetite.corpora import BadDocumentError, Corpus
from bpetite.corpora._inputs import columns
from bpetite.corpora._inputs.source import BLOCK_BYTES

pytestmark = quick_once

GOOD = b'{"text": "ab"}\n'


def error_of(path: Path, **options: Any) -> str:
    """Return the error of a corpus, without the folder of its file."""
    with pytest.raises(BadDocumentError) as caught:
        list(Corpus(path, **options))
    return str(caught.value).removeprefix(str(path.parent) + os.sep)


def skipped(path: Path, **options: Any) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the documents that are left, and the fields of the log without the file."""
    log = path.parent / "bad.log"
    corpus = Corpus(path, on_bad="skip", bad_log=log, **options)
    texts = list(corpus)
    lines = [json.loads(line) for line in log.read_text("utf-8").splitlines()]
    assert corpus.report.bad == len(lines) == len(corpus.report.first_bad)
    assert {line.pop("file") for line in lines} <= {str(path)}
    assert [*of_segments(path, **options)] == texts
    return texts, lines


def of_segments(path: Path, **options: Any) -> list[str]:
    texts: list[str] = []
    is_open = False
    for (data, offsets, _), is_complete in Corpus(path, on_bad="skip", **options).segments():
        found = documents(data, offsets)
        if is_open:
            texts[-1] += found.pop(0)
        texts += found
        is_open = not is_complete
    return texts


BAD_LINES = {
    b'{"text": "a"': "not JSON",
    b'{"text": "a"} {}': "not JSON",
    b"[]": "no field",
    b'"text"': "no field",
    b'{"body": "a"}': "no field",
    b'{"n": {"text": "a"}}': "no field",
    b'{"text": null}': "not a string",
    b'{"text": 5}': "not a string",
    b'{"text": "a\\ud800"}': "lone surrogate",
    b'{"text": "a\xff"}': "not UTF-8",
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_named_by_line_and_byte(
    line: bytes, compression: str, tmp_path: Path
) -> None:
    path = tmp_path / ("a.jsonl" + compression)
    path.write_bytes(COMPRESSIONS[compression](GOOD * 2 + b"\n" + line + b"\n" + GOOD))
    byte = 2 * len(GOOD) + 1
    assert error_of(path) == f"a.jsonl{compression}: line 4, byte {byte}: {BAD_LINES[line]}"
    expected = {"line": 4, "byte": byte, "reason": BAD_LINES[line]}
    assert skipped(path) == (["ab"] * 3, [expected])


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_of_a_span_is_named_as_in_the_file(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 5 + line + b"\n" + GOOD * 3)
    (file,) = Corpus(path).files
    for part_bytes in (1, 20, 33, 64):
        spans = file.spans(part_bytes)
        with pytest.raises(BadDocumentError, match=rf"line 6, byte {5 * len(GOOD)}: "):
            [list(Corpus(path).part([span])) for span in spans]


@pytest.mark.parametrize("format", ["lines", "jsonl"])
def test_skipped_lines_of_a_span_are_named_by_their_byte(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To count the lines before each span would read a file as often as it has spans."""
    path = tmp_path / "a"
    path.write_bytes(GOOD * 3 + b"\xff\n" * 2 + GOOD * 3)
    (file,) = Corpus(path, format=format).files  # type: ignore[arg-type]
    monkeypatch.setattr("bpetite.corpora._inputs.jsonl.lines_before", None)
    found = []
    for span in file.spans(20)[1:]:
        corpus = Corpus(path, format=format, on_bad="skip").part([span])  # type: ignore[arg-type]
        list(corpus)
        found += corpus.report.first_bad
    assert [(bad.unit, bad.row, bad.byte) for bad in found] == [
        ("line", None, 3 * len(GOOD)),
        ("line", None, 3 * len(GOOD) + 2),
    ]
    assert str(found[0]).startswith(f"{path}: line at byte {3 * len(GOOD)}: not ")


@pytest.mark.parametrize("format", ["text", "lines", "jsonl", "json"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_recognised_in_each_format(format: str, encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes('\ufeff{"text": "ab"}\n'.encode(encoding))
    assert error_of(path, format=format).endswith(
        "it looks like UTF-16, so convert it: iconv -f UTF-16 -t UTF-8)"
    )
    path.write_bytes(b"ab\n" + path.read_bytes())
    assert "UTF-16" not in error_of(path, format=format)


def test_no_block_within_a_text_is_taken_for_utf16(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"a" * BLOCK_BYTES + b"\xff\xfe")
    assert error_of(path) == f"file is not UTF-8 at byte {BLOCK_BYTES} (0xff: invalid start byte)"


@pytest.mark.parametrize("format", ["lines", "json"])
def test_bad_documents_of_other_formats_are_named(format: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if format == "lines":
        path.write_bytes(b"ab\nc\xff\n\xe4\n\xbd\xa0\nd")
        expected = [
            {"line": 2, "byte": 4, "reason": "not UTF-8 (0xff: invalid start byte)"},
            {"line": 3, "byte": 6, "reason": "not UTF-8 (0xe4: unexpected end of data)"},
            {"line": 4, "byte": 8, "reason": "not UTF-8 (0xbd: invalid start byte)"},
        ]
    else:
        path.write_bytes(b'[{"text": "ab"},\n7, {"text": "\\udc00"}, {"text": []}, {"text": "d"}]')
        expected = [
            {"row": 1, "byte": 17, "reason": "no field"},
            {"row": 2, "byte": 20, "reason": "lone surrogate"},
            {"row": 3, "byte": 40, "reason": "not a string"},
        ]
    assert skipped(path, format=format) == (["ab", "d"], expected)
    assert error_of(path, format=format).startswith("file: ")


@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_nulls_and_invalid_utf8_of_columns_are_named(kind: str, tmp_path: Path) -> None:
    values: list[Any] = [b"ab", None, b"\xff", b"", b"\xe4", b"\xbd\xa0", b"d"]
    path = tmp_path / "file"
    if kind == "parquet":
        path.write_bytes(parquet(values, kind=pa.binary()))
    else:
        path.write_bytes(arrow(values, is_file=kind == "arrow", kind=pa.binary()))
    expected = [
        {"row": 1, "reason": "null"},
        {"row": 2, "byte": 0, "reason": "not UTF-8 (0xff: invalid start byte)"},
        {"row": 4, "byte": 0, "reason": "not UTF-8 (0xe4: unexpected end of data)"},
        {"row": 5, "byte": 0, "reason": "not UTF-8 (0xbd: invalid start byte)"},
    ]
    assert skipped(path) == (["ab", "", "d"], expected)
    assert error_of(path) == "file: row 1: null"
    named = [
        bad
        for span in Corpus(path).files[0].spans(1)
        for bad in bad_rows(Corpus(path, on_bad="skip").part([span]))
    ]
    assert named == [1, 2, 4, 5]


def bad_rows(corpus: Corpus) -> list[int | None]:
    list(corpus)
    return [bad.row for bad in corpus.report.first_bad]


def test_a_column_of_nulls_alone_is_bad(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet([None, None], kind=pa.null()))
    assert skipped(path) == ([], [{"row": row, "reason": "null"} for row in range(2)])


@pytest.mark.parametrize(
    ("column", "reason"),
    [("text", "its column 'text' holds int64"), ("body", "'body' in: id, text")],
)
def test_a_column_without_text_is_an_error(column: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet([1, 2], kind=pa.int64()))  # type: ignore[list-item]
    assert reason in error_of(path, text_field=column)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst"])
def test_invalid_utf8_of_a_text_is_found_at_every_block(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    compress = COMPRESSIONS[path.suffix.removeprefix(".txt") if name != "a.txt" else ""]
    path.write_bytes(compress("é".encode() * 40 + b"\xe4\xbdx"))
    expected = f"{name} is not UTF-8 at byte 80 (0xe4: invalid continuation byte)"
    assert error_of(path) == expected
    for batch_bytes in range(1, 90):
        with pytest.raises(BadDocumentError, match="byte 80 "):
            list(Corpus(path).segments(batch_bytes=batch_bytes))
    reason = "not UTF-8 (0xe4: invalid continuation byte)"
    assert skipped(path) == ([], [{"byte": 80, "reason": reason}])


# Compressed files


@pytest.mark.parametrize(
    "kind", slow_except([gz, zstd, zstandard.compress, gzip.compress], gz, zstd)
)
@pytest.mark.parametrize("name", ["a.jsonl", "a.txt", "a.arrow", "a.json"])
def test_a_file_cut_anywhere_is_an_error(name: str, kind: Any, tmp_path: Path) -> None:
    """`zstandard` itself returns the beginning of a cut file without an error."""
    data = {"a.arrow": arrow(TEXTS, is_file=False), "a.txt": "".join(TEXTS).encode()}
    whole = kind(data.get(name, jsonl(TEXTS)))
    path = tmp_path / (name + (".gz" if kind in (gz, gzip.compress) else ".zst"))
    for end in [*range(0, len(whole), 14), len(whole) - 1]:
        path.write_bytes(whole[:end])
        if is_whole(whole[:end], path.suffix):
            continue  # at the end of a member or frame, nothing is missing
        with pytest.raises(BadDocumentError, match=r" is (cut|corrupt|no gzip|no zstd|not JSON)"):
            list(Corpus(path))
        corpus = Corpus(path, on_bad="skip")
        assert len(list(corpus)) <= len(TEXTS)
        assert corpus.report.bad >= 1


def is_whole(data: bytes, suffix: str) -> bool:
    try:
        if suffix == ".gz":
            return bool(data) and bool(gzip.decompress(data) or True)
        decompressor = zstandard.ZstdDecompressor()
        while data:
            frame = decompressor.decompressobj()
            frame.decompress(data)
            if not frame.eof:
                return False
            data = frame.unused_data
            if data[:4] == b"\x50\x2a\x4d\x18":
                if len(data) < 13:
                    return False
                data = data[13:]
        return False
    except (EOFError, OSError, zstandard.ZstdError):
        return False


def test_a_cut_file_names_its_last_byte(tmp_path: Path) -> None:
    whole = zstandard.compress(jsonl(TEXTS))
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(whole[:-5])
    place = f"at byte {len(whole) - 5}"
    assert error_of(path) == f"a.jsonl.zst is cut {place} (the zstd stream has no end)"
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(TEXTS))[:-5])
    assert "a.jsonl.gz is cut at byte" in error_of(path)


def test_lines_before_a_cut_are_kept_if_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps({"text": os.urandom(500).hex()}).encode() + b"\n" for _ in range(500)]
    path.write_bytes(gzip.compress(b"".join(lines))[:-20_000])
    corpus = Corpus(path, on_bad="skip")
    texts = list(corpus)
    assert texts == [json.loads(line)["text"] for line in lines][: len(texts)]
    assert 100 < len(texts) < 500
    assert corpus.report.bad == 1


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_bytes_after_a_compressed_stream_are_an_error(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.jsonl" + suffix)
    path.write_bytes(COMPRESSIONS[suffix](GOOD) + b"more bytes")
    assert " is corrupt at byte " in error_of(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_wrong_checksums_are_an_error(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / ("a.jsonl" + suffix)
    data = bytearray(COMPRESSIONS[suffix](GOOD * 2))
    data[-6 if suffix == ".gz" else -2] ^= 1
    path.write_bytes(data)
    assert " is corrupt at byte " in error_of(path)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.jsonl.gz", GOOD, "no gzip file"),
        ("a.jsonl.zst", b"\x1f\x8b\x08\0", "no zstd file"),
        ("a.jsonl", b"BZh91AY", "bzip2-compressed"),
        ("a.txt.xz", b"\xfd7zXZ\0\0", "xz-compressed"),
        ("a.zip", b"PK\x03\x04...", "zip-compressed"),
    ],
)
def test_a_name_that_its_content_contradicts_is_an_error(
    name: str, data: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    assert error_of(tmp_path / name).startswith(f"{name} is {reason}")


def tar(format: int) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=format) as archive:
        member = tarfile.TarInfo("a.txt")
        member.size = 7
        archive.addfile(member, io.BytesIO(b"the hen"))
    return file.getvalue()


def zip_() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.txt", "the hen")
    return file.getvalue()


def sqlite() -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE texts (text TEXT)")
        return database.serialize()


TAR = tar(tarfile.USTAR_FORMAT)
OLD_TAR = TAR[:148] + b"000000\0 " + b"0" + TAR[157:257] + bytes(8) + TAR[265:]
OLD_TAR = (
    OLD_TAR[:148]
    + b"%06o\0 " % sum(OLD_TAR[:512].replace(b"000000\0 ", b" " * 8, 1))
    + OLD_TAR[156:]
)
SAFETENSORS = json.dumps({"a": {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()

CONTAINERS = {
    "tar": ("a tar archive", TAR),
    "tar of GNU": ("a tar archive", tar(tarfile.GNU_FORMAT)),
    "tar of POSIX": ("a tar archive", tar(tarfile.PAX_FORMAT)),
    "tar without a magic number": ("a tar archive", OLD_TAR),
    "ar": ("an ar archive", b"!<arch>\na.txt/          0     0     0     644  "),
    "cpio": ("a cpio archive", b"070701" + b"0" * 104 + b"a.txt\0"),
    "zip": ("zip-compressed", zip_()),
    "empty zip": ("zip-compressed", b"PK\5\6" + bytes(18)),
    "bzip2": ("bzip2-compressed", bz2.compress(b"the hen")),
    "WARC": ("a WARC archive", b"WARC/1.0\r\nWARC-Type: warcinfo\r\n\r\n"),
    "safetensors": (
        "a file of safetensors",
        struct.pack("<Q", len(SAFETENSORS)) + SAFETENSORS + b"a",
    ),
    "npy": ("an array of numpy", b"\x93NUMPY\1\0v\0{'descr': '|u1'}"),
    **{
        f"pickle {protocol} of {type(each).__name__}": (
            "a pickle",
            pickle.dumps(each, protocol),
        )
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
        for each in (["the hen"], {"text": "the hen"})
    },
    "SQLite": ("an SQLite database", sqlite()),
    "NULs": ("only NUL bytes", bytes(1000)),
    "many NULs": ("only NUL bytes", bytes(1 << 17)),
    "Parquet": ("a Parquet file", parquet(TEXTS)),
    "Arrow": ("an Arrow file", arrow(TEXTS)),
}


@pytest.mark.parametrize(("kind", "data"), CONTAINERS.values(), ids=CONTAINERS)
@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "a.jsonl"])
def test_a_container_is_no_document(kind: str, data: bytes, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(COMPRESSIONS[path.suffix](data) if path.suffix in COMPRESSIONS else data)
    assert error_of(path).startswith(f"{name} is {kind} (")
    assert error_of(path, format="lines").startswith(f"{name} is {kind} (")
    assert [*skipped(path)[0]] == []
    if path.suffix == ".txt":
        corpora: list[Any] = [path, ["a", path], io.BytesIO(data)]
        for corpus in corpora:
            with pytest.raises(ValueError, match=f" is {kind}; "):
                Tokenizer.train(corpus, 256)


def test_an_archive_in_two_compressions_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_bytes(gz(gz(TAR)))
    assert error_of(tmp_path / "a.tar.gz") == "a.tar.gz is gzip-compressed (decompress it)"


def test_an_archive_is_not_divided(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(TAR)
    with pytest.raises(BadDocumentError, match="a tar archive"):
        Corpus(tmp_path / "a.txt", format="lines").parts(1000)
    (part,) = Corpus(tmp_path / "a.txt", format="lines", on_bad="skip").parts(1000)
    assert ([*part], part.report.bad) == ([], 1)


@pytest.mark.parametrize(
    "text",
    [
        "PK is a prefix",
        "BZh is a prefix",
        "PAR1 is a course",
        "SQLite format 3 is a format",
        "WARC/1.0 is a format",
        "%PDF-1.4 is a format",
        "!<arch> begins an archive",
        "ustar\0",
        "a" * 257 + "ustar\0" + "00" + "b" * 300,
        "a" * 257 + "ustar" + "b" * 300,
        "\0",
        "\0the hen",
        "the\0hen" * 100,
        "\0" * 600 + "the hen",
        "0707070707",
        "(the list)",
        "N.",
    ],
)
def test_a_text_that_mentions_a_container_is_a_document(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert [*Corpus(tmp_path / "a.txt")] == [text]
    Tokenizer.train(tmp_path / "a.txt", 256)


def test_memory_is_bounded_for_a_file_of_one_repeated_byte(tmp_path: Path) -> None:
    """A few kilobytes of Zstandard may hold gigabytes: blocks are bounded after decompression."""
    (tmp_path / "a.txt.zst").write_bytes(zstandard.compress(b" " * (1 << 24)))
    sizes = [len(data) for (data, _, _), _ in Corpus(tmp_path / "a.txt.zst").segments()]
    assert sum(sizes) == 1 << 24
    assert max(sizes) <= 1 << 20


@pytest.mark.parametrize("step", [33, pytest.param(11, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "stream"])
def test_cut_and_corrupt_columns_are_errors(kind: str, step: int, tmp_path: Path) -> None:
    whole = parquet(TEXTS) if kind == "parquet" else arrow(TEXTS, is_file=kind == "arrow")
    path = tmp_path / ("a.parquet" if kind == "parquet" else "a.arrow")
    for end in [*range(0, len(whole), step), len(whole) - 1]:
        path.write_bytes(whole[:end])
        with pytest.raises(BadDocumentError, match=r" is (cut|corrupt|unreadable)"):
            list(Corpus(path))


def test_a_page_of_an_unknown_kind_loses_no_row_in_silence(tmp_path: Path) -> None:
    """Readers skip such a page."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = pa.table({"text": [f"document {row}" for row in range(1000)]})
    options = {"use_dictionary": False, "data_page_size": 1000, "write_batch_size": 100}
    parquet.write_table(table, path, compression="NONE", **options)
    data = bytearray(path.read_bytes())
    page = parquet.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    assert data[page : page + 2] == b"\x15\x00"
    data[page + 1] = 2
    path.write_bytes(data)
    assert "a.parquet is corrupt (row group 0 has 900 of its 1000 rows)" in error_of(path)


@pytest.mark.parametrize("rows", [1, 3])
def test_parquet_that_counts_too_few_rows_loses_none_in_silence(rows: int, tmp_path: Path) -> None:
    """Each number of rows in the footer, of the file, a group or its texts, is made smaller.

    Of those of the texts, pyarrow reads as many as their pages have.
    """
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    texts = [f"document {row}" for row in range(9)]
    options = {"use_dictionary": False, "write_statistics": False, "compression": "NONE"}
    parquet.write_table(pa.table({"text": texts}), path, row_group_size=5, **options)
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    # A number of Thrift has its sign in the lowest bit.
    numbers = re.finditer(rb"\x16(?:\x0a|\x08|\x12)", data[footer:])
    found = [footer + match.start() + 1 for match in numbers]
    assert len(found) >= 5
    for at in found:
        path.write_bytes(data[:at] + bytes([2 * rows]) + data[at + 1 :])
        with suppress(BadDocumentError):
            assert list(Corpus(path)) == texts


def test_no_byte_of_a_footer_of_parquet_ends_the_process(tmp_path: Path) -> None:
    """The statistics of a column that contradict each other make pyarrow end it."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pa.table({"number": [1, 2], "text": ["a", "b"]}), path)
    program = f"""
from bpetite import Tokenizer
from bpetite.corpora import BadDocumentError, Corpus
path = {os.fspath(path)!r}
data = open(path, "rb").read()
footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
for at in range(footer, len(data) - 8):
    with open(path, "wb") as file:
        file.write(data[:at] + bytes([data[at] ^ 2]) + data[at + 1 :])
    try:
        list(Corpus(path))
    except BadDocumentError as error:
        print(str(error).partition("(")[2])
"""
    assert "histogram" in output_of(program)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize("field", ["a.b", "a"])
def test_a_column_with_the_path_of_a_struct_is_read(
    field: str, is_first: bool, tmp_path: Path
) -> None:
    """The name of a column may also be the path of a field, or the beginning of one."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    other = {"a": [{"b": None}] * 31} if field == "a.b" else {"a.b": [7] * 31}
    text = {field: [f"document {row}" for row in range(31)]}
    columns = {**text, **other} if is_first else {**other, **text}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=9)
    assert [*Corpus(tmp_path / "a.parquet", text_field=field)] == text[field]


def test_row_group_with_rows_below_0_is_corrupt(tmp_path: Path) -> None:
    """Else the rows of the groups after it would have numbers below 0."""
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = pa.table({"text": ["a"] * 20 + [None] + ["b"] * 19})
    parquet.write_table(table, path, row_group_size=20, store_schema=False)
    # 20 rows from byte 4 on become -20.
    path.write_bytes(path.read_bytes().replace(b"\x16\x28\x26\x08\x16", b"\x16\x27\x26\x08\x16"))
    groups = parquet.read_metadata(path)
    assert [groups.row_group(group).num_rows for group in (0, 1)] == [-20, 20]
    for part in Corpus(path, on_bad="skip").parts(1):
        assert list(part) == []
        assert [bad.reason for bad in part.report.first_bad] == ["corrupt"]


@pytest.mark.parametrize("batches", [0, 1])
def test_arrow_whose_footer_lacks_batches_is_corrupt(batches: int, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    sink = pa.BufferOutputStream()
    texts = pa.record_batch({"text": ["a", "b", "c"]})
    with pa.ipc.new_file(sink, texts.schema) as writer:
        writer.write_batch(texts)
        writer.write_batch(texts)
    data = sink.getvalue().to_pybytes()
    footer = len(data) - 10 - int.from_bytes(data[-10:-6], "little")
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    assert list(Corpus(path)) == ["a", "b", "c"] * 2
    at = data.index(struct.pack("<i", 2), footer)
    path.write_bytes(data[:at] + struct.pack("<i", batches) + data[at + 4 :])
    assert f"its footer has {batches} of its 2 record batches" in error_of(path)


def test_arrow_file_without_an_end_mark_is_whole(tmp_path: Path) -> None:
    whole = arrow(TEXTS, is_file=True)
    footer = len(whole) - 10 - int.from_bytes(whole[-10:-6], "little")
    assert whole[footer - 8 : footer] == b"\xff\xff\xff\xff\0\0\0\0"
    path = tmp_path / "a.arrow"
    path.write_bytes(whole[: footer - 8] + whole[footer:])
    assert list(Corpus(path)) == TEXTS


@pytest.mark.parametrize("is_file", slow_except([False, True], True))
def test_arrow_dictionary_with_too_few_indices_is_corrupt(is_file: bool, tmp_path: Path) -> None:
    """Its record batch claims more rows than there are; pyarrow would read other memory."""
    pa = pytest.importorskip("pyarrow")
    indices = pa.array([0, 1, 0, 1, 0, 1, 0], pa.int32())
    batch = pa.record_batch({"text": pa.DictionaryArray.from_arrays(indices, ["a", "b"])})
    path = tmp_path / "a.arrow"
    opened = pa.ipc.new_file if is_file else pa.ipc.new_stream
    with opened(path, batch.schema) as writer:
        writer.write_batch(batch)
    data = path.read_bytes()
    rows = struct.pack("<q", 7)
    assert data.count(rows) >= 2  # of the batch and of its column
    path.write_bytes(data.replace(rows, struct.pack("<q", 1 << 31)))
    program = f"""
from bpetite import Tokenizer
from bpetite.corpora import BadDocumentError, Corpus
try:
    list(Corpus({os.fspath(path)!r}))
except BadDocumentError as error:
    print("corrupt" in str(error))
"""
    assert output_of(program) == "True\n"


def test_columns_without_text_come_in_batches() -> None:
    """Rows take memory too; a column of nulls may be of any length in a file of any size."""
    pa = pytest.importorskip("pyarrow")
    rows = 1 << 17
    empty = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int8()), pa.array([""]))
    for column in (pa.nulls(1 << 24), pa.array([""] * rows), empty):
        found = next(columns.found_in("a.arrow", [column], 0, 1 << 19))
        assert len(found.bad) + (found.batch is not None and len(found.batch.rows)) == 1 << 16


def test_buffer_of_offsets_may_have_any_length() -> None:
    pa = pytest.importorskip("pyarrow")
    offsets = struct.pack("<3i", 0, 1, 2) + b"?"
    texts = pa.StringArray.from_buffers(2, pa.py_buffer(offsets), pa.py_buffer(b"ab"))
    (found,) = columns.found_in("a.arrow", [texts], 0, 1 << 19)
    assert found.batch is not None
    assert found.batch.offsets.tolist() == [0, 1, 2]


def test_a_null_in_a_dictionary_of_views_may_point_anywhere(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    views = struct.pack("<i12s", 2, b"ab") + struct.pack("<i4s2i", -65536, b"\xff\x7f", 9, 1 << 30)
    buffers = [pa.py_buffer(b"\1"), pa.py_buffer(views), pa.py_buffer(b"")]
    texts = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0]), texts)
    batch = pa.record_batch({"text": column})
    with pa.ipc.new_stream(tmp_path / "a.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    assert skipped(tmp_path / "a.arrow") == (["ab", "ab"], [{"row": 1, "reason": "null"}])


def test_a_name_in_parquet_that_is_not_utf8_is_corrupt(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(TEXTS).replace(b"text", b"te\xf3t"))
    assert "a.parquet is corrupt (a name is not UTF-8: " in error_of(path)


@pytest.mark.parametrize("is_file", [True, False])
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "dictionary"])
def test_texts_outside_the_buffers_of_arrow_are_corrupt(
    kind: str, is_file: bool, tmp_path: Path
) -> None:
    """Otherwise memory of others is a document, or the process ends."""
    pa = pytest.importorskip("pyarrow")
    texts = ["a document of more bytes than a view has", None, "ab", ""]
    array = pa.array(texts, None if kind == "dictionary" else getattr(pa, kind)())
    if kind == "dictionary":
        array = array.dictionary_encode()
    right, wrong = {
        "string": ("<2i", (40, 42)), "large_string": ("<2q", (40, 42)),
        "string_view": ("<i4s2i", (40, b"a do", 0, 0)), "dictionary": ("<4i", (0, 0, 1, 2)),
    }[kind], {
        "string": (1 << 24, 42), "large_string": (1 << 40, 42),
        "string_view": (40, b"a do", 0, 1 << 24), "dictionary": (0, 0, 1 << 24, 2),
    }[kind]  # fmt: skip
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"text": array})
    with (pa.ipc.new_file if is_file else pa.ipc.new_stream)(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue().to_pybytes()
    before = struct.pack(right[0], *right[1])
    assert data.count(before) == 1
    path = tmp_path / "a.arrow"
    path.write_bytes(data)
    assert list(Corpus(path, on_bad="skip")) == [text for text in texts if text is not None]
    path.write_bytes(data.replace(before, struct.pack(right[0], *wrong)))
    assert " is corrupt" in error_of(path)


def test_a_view_of_a_null_may_point_anywhere(tmp_path: Path) -> None:
    """Otherwise pyarrow follows it, and the process ends."""
    views = struct.pack("<i12s", 2, b"ab") + struct.pack("<i4s2i", -65536, b"\xff\x7f", 9, 1 << 30)
    buffers = [pa.py_buffer(b"\1"), pa.py_buffer(views), pa.py_buffer(b"")]
    column = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    batch = pa.record_batch({"text": column})
    with pa.ipc.new_stream(tmp_path / "a.arrow", batch.schema) as writer:
        writer.write_batch(batch)
    assert skipped(tmp_path / "a.arrow") == (["ab"], [{"row": 1, "reason": "null"}])


def test_bytes_may_follow_the_views_of_arrow() -> None:
    views = struct.pack("<i12si12s", 2, b"ab", 1, b"c") + b"\0"
    buffers = [None, pa.py_buffer(views), pa.py_buffer(b"")]
    column = pa.Array.from_buffers(pa.string_view(), 2, buffers)
    assert list(columns.lengths_of(column)) == [2, 1]


def test_parquet_compressed_as_a_whole_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a.parquet.gz").write_bytes(gz(parquet(TEXTS)))
    assert "Parquet must be a file and not compressed as a whole" in error_of(
        tmp_path / "a.parquet.gz"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"[1, 2",
        b'[{"text": "a"}',
        b'[{"text": "a"}, ]',
        b'{"text": "a"',
        b'[{"text": "a"} {"text": "b"}]',
        b'{"te',
        b"[[" * 100_000,
        b"\xff",
        b'[{"text": "' + b"a" * (1 << 21),
    ],
    ids=map(str, range(9)),
)
def test_json_that_is_cut_or_wrong_is_an_error(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(data)
    assert " not " in error_of(path) or "no field" in error_of(path)
    corpus = Corpus(path, on_bad="skip")
    list(corpus)
    assert corpus.report.bad >= 1


# Errors as objects


def test_an_error_has_its_document_and_pickles(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD + b"{}\n")
    with pytest.raises(BadDocumentError) as caught:
        list(Corpus(tmp_path / "a.jsonl"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert again.document == caught.value.document
    assert (again.document.row, again.document.byte) == (1, len(GOOD))


def test_batches_before_a_bad_document_arrive(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD * 1000 + b"{}\n")
    batches = Corpus(tmp_path / "a.jsonl").batches(batch_bytes=100)
    seen: list[int] = []
    with pytest.raises(BadDocumentError):
        seen.extend(len(batch.rows) for batch in batches)
    assert 990 <= sum(seen) <= 1000


@posix_only
def test_a_file_that_vanishes_is_an_error_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(GOOD)
    corpus = Corpus(tmp_path / "a.jsonl", on_bad="skip")
    assert corpus.files[0].format == "jsonl"
    (tmp_path / "a.jsonl").unlink()
    with pytest.raises(FileNotFoundError):
        list(corpus)


# Too little memory


@pytest.mark.parametrize("kind", ["parquet", "gzip", "zstd"])
def test_too_little_memory_is_never_a_bad_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With `skip`, all documents of a good file would be lost."""
    path = tmp_path / {"parquet": "a.parquet", "gzip": "a.jsonl.gz", "zstd": "a.jsonl.zst"}[kind]
    if kind == "parquet":
        path.write_bytes(parquet(TEXTS))
        error: Exception = pa.ArrowMemoryError("malloc of size 9 failed")
        monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", raising(error))
    else:
        path.write_bytes(COMPRESSIONS[path.suffix](jsonl(TEXTS)))
        words = {
            "gzip": zlib.error("Error -4 while decompressing data: out of memory"),
            "zstd": zstandard.ZstdError("zstd: Allocation error : not enough memory"),
        }
        error = words[kind]
        name = "_GzipStream" if kind == "gzip" else "_zstd_stream"
        stream = SimpleNamespace(readinto=raising(error))
        monkeypatch.setattr(f"bpetite.corpora._inputs.compression.{name}", lambda _: stream)
    with pytest.raises(MemoryError, match=rf"{path.name}: out of memory \(.*{error}"):
        list(Corpus(path, on_bad="skip"))


def test_a_size_that_no_machine_has_is_a_bad_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(parquet(TEXTS))
    error = pa.ArrowMemoryError("malloc of size 5558009288175124480 failed")
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", raising(error))
    with pytest.raises(ValueError, match=r"corrupt.*it claims 5558009288175124480 bytes"):
        list(Corpus(path))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (pa.ArrowException("Unknown error: Failed to launch worker thread"), BlockingIOError),
        (OSError("ZSTD decompression failed: Allocation error"), MemoryError),
        (OSError("Couldn't deserialize thrift: std::bad_alloc"), MemoryError),
    ],
    ids=["thread", "allocation", "bad_alloc"],
)
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_refusals_of_the_system_are_never_bad_files(
    error: Exception,
    expected: type[Exception],
    suffix: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(parquet(TEXTS) if suffix == "parquet" else arrow(TEXTS))
    name = {"parquet": "pyarrow.parquet.ParquetFile.iter_batches", "arrow": "pyarrow.ipc.open_file"}
    monkeypatch.setattr(name[suffix], raising(error))
    with pytest.raises(expected) as caught:
        list(Corpus(path, on_bad="skip"))
    assert path.name in str(caught.value)


def raising(error: Exception) -> Callable[..., Any]:
    """Return a function that fails."""

    def fail(*_: object, **__: object) -> Any:
        raise error

    return fail


# Few bytes that hold many


@pytest.mark.parametrize("kind", ["arrow", "stream", "view"])
def test_one_stored_text_for_many_rows_takes_little_memory(kind: str, tmp_path: Path) -> None:
    """A dictionary, or a buffer of views, has the text once: 1,000 rows of it are 100 MB."""
    rows, text = 1_000, "x " * 50_000
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([text]))
    if kind == "view":
        view = struct.pack("<i4sii", len(text), text[:4].encode(), 0, 0)
        buffers = [None, pa.py_buffer(view * rows), pa.py_buffer(text.encode())]
        column = pa.Array.from_buffers(pa.string_view(), rows, buffers)
    table = pa.table({"text": column})
    path = tmp_path / "a"
    new = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with new(path, table.schema) as writer:
        writer.write_table(table)
    before = pa.default_memory_pool().max_memory()
    sizes = [len(batch.data) for batch in Corpus(path).batches()]
    assert sum(sizes) == rows * len(text)
    assert max(sizes) < 1 << 20
    assert pa.default_memory_pool().max_memory() - before < 1 << 25


def test_parquet_with_deltas_after_a_dictionary_is_read() -> None:
    """Writers in Java and Rust change so once a dictionary is full; pyarrow writes no such file."""
    pytest.importorskip("pyarrow.parquet")
    folder = Path(__file__).parents[1] / "data"
    ends = Corpus(folder / "dictionary-then-delta.parquet")
    assert list(ends) == ["red"] * 4000 + ["green"] * 200
    lengths = Corpus(folder / "dictionary-then-lengths.parquet")
    assert list(lengths) == ["red", "blue"] * 2000 + [f"green{number}" for number in range(200)]


def test_an_arrow_file_that_cannot_be_mapped_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No address space is left for it, say: that is no fault of the file."""
    path = tmp_path / "a.arrow"
    path.write_bytes(arrow(TEXTS))
    monkeypatch.setattr(pa, "memory_map", lambda _: pa.OSFile(os.fsencode(tmp_path / "none")))
    assert list(Corpus(path)) == TEXTS


@pytest.mark.parametrize("rows", [7, 150])
def test_dictionaries_of_parquet_give_plain_documents(rows: int, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    few: list[Any] = [None, "", "ab", "x" * 3000, "é" * 500]
    texts = [few[number % 5] for number in range(200)] + [str(number) for number in range(70)]
    for kind in (
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.dictionary(pa.int8(), pa.string()),
    ):
        values = [text if text is None or kind != pa.binary() else text.encode() for text in texts]
        if pa.types.is_dictionary(kind):
            values = values[:200]
        table = pa.table({"text": pa.array(values).cast(kind)})
        found = []
        writers: list[dict[str, Any]] = [{}, {"use_dictionary": False}, {"version": "1.0"}]
        for number, options in enumerate(writers):
            path = tmp_path / f"{number}.parquet"
            pq.write_table(
                table, path, row_group_size=rows, dictionary_pagesize_limit=400, **options
            )
            corpus = Corpus(path, on_bad="skip")
            batches = [
                (row, text)
                for batch in corpus.batches(batch_bytes=2000)
                for row, text in zip(batch.rows, documents(batch.data, batch.offsets), strict=True)
            ]
            assert [text for _, text in batches] == [
                text for text in texts[: len(values)] if text is not None
            ]
            found.append((batches, [(bad.row, bad.reason) for bad in corpus.report.first_bad]))
        assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(("log", "is_read"), [(27, True), (31, True), (32, False), (41, False)])
def test_a_window_of_zstd_above_2_gib_is_an_error(log: int, is_read: bool, tmp_path: Path) -> None:
    block = (len(GOOD) << 3 | 1).to_bytes(3, "little") + GOOD
    frame = b"\x28\xb5\x2f\xfd\0" + bytes([log - 10 << 3]) + block
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(frame)
    if is_read:
        assert list(Corpus(path)) == ["ab"]
    else:
        assert "is unreadable at byte" in error_of(path)
        assert "its zstd window is above 2 GiB; compress it with --long=31" in error_of(path)


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_compressed_text_is_in_memory_once(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](b" " * (1 << 24)))
    tracemalloc.start()
    (batch,) = Corpus(path).batches()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(batch.data) == 1 << 24
    assert peak < 1.5 * (1 << 24)


# Arrays of JSON


def test_a_long_integer_of_json_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(
        '[{"text":"a"},{"x":' + "9" * 5000 + ',"text":"b"},{"text":' + "9" * 5000 + "}]"
    )
    byte = path.read_text().rindex("{")
    assert skipped(path) == (["a", "b"], [{"row": 2, "byte": byte, "reason": "not a string"}])


def test_bad_rows_of_json_take_no_longer_than_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    seconds = []
    for row in ('{"text":"é"}', '"é"'):
        path.write_text(f"[{','.join([row] * 20_000)}]", "utf-8")
        start = time.process_time()
        corpus = Corpus(path, on_bad="skip")
        list(corpus)
        seconds.append(time.process_time() - start)
    assert corpus.report.bad == 20_000
    assert corpus.report.first_bad[99].byte == 1 + 5 * 99
    assert seconds[1] < 4 * seconds[0]


# Sizes


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_large_batches_of_a_small_file_take_little_memory(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.jsonl{suffix}"
    path.write_bytes(COMPRESSIONS[suffix](GOOD * 20_000))
    tracemalloc.start()
    (batch,) = Corpus(path).batches(batch_bytes=1 << 32)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(batch.rows) == 20_000
    assert peak < 1 << 24


def test_a_size_may_be_an_integer_of_numpy(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    path = tmp_path / "a.jsonl"
    path.write_bytes(GOOD * 20)
    spans = [part.spans for part in Corpus(path).parts(97)]
    assert [part.spans for part in Corpus(path).parts(numpy.uint32(97))] == spans
    assert [span for (file,) in [Corpus(path).files] for span in file.spans(numpy.uint8(97))] == [
        span for (span,) in spans
    ]
