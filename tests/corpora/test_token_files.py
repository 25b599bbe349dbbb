"""Token files have the bytes that their readers expect, and read back as what was written."""

from __future__ import annotations

import gzip
import re
import struct
import sys
from array import array
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.engines import once

from bpetite import Tokenizer, corpora
from bpetite.corpora import Corpus
from bpetite.corpora._new_files import NewFiles
from bpetite.corpora._token_files import FORMATS
from bpetite.corpora._token_files.datatrove import rounded
from bpetite.corpora._token_files.token_format import Shard, Tokens

pytestmark = once

DOCUMENTS = [[7, 8, 0], [500, 0], [1, 2, 3, 4, 0]]
IDS = [id for document in DOCUMENTS for id in document]
TYPECODES = {"uint16": "H", "uint32": "I", "int32": "I"}
IN_FILES = {"uint16": "<u2", "uint32": "<u4", "int32": "<i4"}
"""The little-endian dtype of ids in a file."""

OTHER_BYTE_ORDER = {"little": "big", "big": "little"}[sys.byteorder]


def tokens(documents: Sequence[Sequence[int]], dtype: str, first_row: int = 0) -> Tokens:
    """Return documents as a part of a corpus gives them to a writer."""
    ids = array(TYPECODES[dtype], [id for document in documents for id in document])
    offsets = [0]
    for document in documents:
        offsets.append(offsets[-1] + len(document))
    rows = range(first_row, first_row + len(documents))
    return Tokens(memoryview(ids), offsets, rows, ["a.jsonl"] * len(documents))


def written(
    format: str, folder: Path, batches: Sequence[Sequence[Sequence[int]]], dtype: str = "uint16"
) -> dict[str, bytes]:
    """Write documents in batches; return the bytes of each file by its extension."""
    files = NewFiles(folder)
    writer = FORMATS[format].writer(Shard("s", dtype, "gpt2"), files)
    row = 0
    for batch in batches:
        writer.write(tokens(batch, dtype, row))
        row += len(batch)
    writer.close()
    facts = files.put_in_place()
    assert facts[0].name == "s" + FORMATS[format].extension
    return {fact.name[1:]: (folder / fact.name).read_bytes() for fact in facts}


def read_back(format: str, folder: Path, dtype: str = "uint16") -> list[list[int]]:
    """Return the documents of a shard as our reader finds them, or its ids as one document."""
    documents: list[list[int]] = []
    unbounded: list[int] = []
    for ids, offsets in FORMATS[format].read(folder, Shard("s", dtype, "gpt2")):
        if offsets is None:
            unbounded += ids.tolist()
        else:
            documents += [ids[start:end].tolist() for start, end in pairwise(offsets)]
    return documents or [unbounded]


@pytest.mark.parametrize("dtype", ["uint16", "int32"])
def test_megatron_files_match_its_builder(tmp_path: Path, dtype: str) -> None:
    found = written("megatron", tmp_path, [DOCUMENTS[:2], DOCUMENTS[2:]], dtype)
    item = np.dtype(dtype).itemsize
    header = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, {2: 8, 4: 4}[item], 3, 4)
    arrays: list[np.ndarray[Any, Any]] = [
        np.array([3, 2, 5], "<i4"),
        np.array([0, 3 * item, 5 * item], "<i8"),
        np.array([0, 1, 2, 3], "<i8"),
    ]
    assert found == {
        ".bin": np.array(IDS, IN_FILES[dtype]).tobytes(),
        ".idx": header + b"".join(part.tobytes() for part in arrays),
    }


def test_datatrove_index_has_the_ends(tmp_path: Path) -> None:
    assert written("datatrove", tmp_path, [DOCUMENTS[:1], DOCUMENTS[1:]]) == {
        ".ds": np.array(IDS, "<u2").tobytes(),
        ".ds.index": np.array([3, 5, 10], "<u8").tobytes(),
        ".ds.metadata": b"gpt2|2\n10\n10.0 T",
    }


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0.00 T"),
        (999, "999 T"),
        (1_500, "1.50 kT"),
        (123_456_789, "123 MT"),
        (10**12, "1.00 TT"),
    ],
)
def test_datatrove_count_has_three_digits(count: int, text: str) -> None:
    assert rounded(count) == text


@pytest.mark.parametrize(("dtype", "magic"), [("uint16", (20240520, 1)), ("uint32", (20240801, 7))])
def test_llmc_header_has_the_number_of_ids(
    tmp_path: Path, dtype: str, magic: tuple[int, int]
) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = (*magic, 10)
    expected = header.tobytes() + np.array(IDS, IN_FILES[dtype]).tobytes()
    assert written("llmc", tmp_path, [DOCUMENTS], dtype) == {".bin": expected}


def test_nanogpt_has_ids_alone(tmp_path: Path) -> None:
    assert written("nanogpt", tmp_path, [DOCUMENTS]) == {".bin": np.array(IDS, "<u2").tobytes()}


def test_olmo_rows_name_the_lines(tmp_path: Path) -> None:
    found = written("olmo", tmp_path, [DOCUMENTS[:2], DOCUMENTS[2:]], "uint32")
    assert found[".npy"] == np.array(IDS, "<u4").tobytes()
    assert gzip.decompress(found[".csv.gz"]).decode() == (
        "0,3,a.jsonl:1,a.jsonl,1\r\n3,5,a.jsonl:2,a.jsonl,2\r\n5,10,a.jsonl:3,a.jsonl,3\r\n"
    )


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_parquet_has_a_list_for_each_document(tmp_path: Path, dtype: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    written("parquet", tmp_path, [DOCUMENTS[:1], [], DOCUMENTS[1:]], dtype)
    table = parquet.read_table(tmp_path / "s.parquet")
    assert table.to_pydict() == {"input_ids": DOCUMENTS}
    assert str(table.schema.field("input_ids").type.value_type) == dtype


@pytest.mark.parametrize(
    ("ids", "kind", "fault"),
    [
        ([[-1, 2]], "list<int64>", "input_ids is list<element: int64>, not a list of uint16"),
        ([[1, 2]], "list<uint32>", "input_ids is list<element: uint32>, not a list of uint16"),
        ([[1.5]], "list<double>", "input_ids is list<element: double>, not a list of uint16"),
        ([["a"]], "list<string>", "input_ids is list<element: string>, not a list of uint16"),
        ([1], "uint16", "input_ids is uint16, not a list of uint16"),
        (["a"], "string", "input_ids is string, not a list of uint16"),
        ([[1, None]], "list<uint16>", "a document or an id is null"),
        ([[1], None], "list<uint16>", "a document or an id is null"),
    ],
)
def test_other_parquet_than_unsigned_ids_is_refused(
    tmp_path: Path, ids: list[Any], kind: str, fault: str
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    name = kind.removeprefix("list<").rstrip(">")
    item = pa.type_for_alias(name)
    column = pa.array(ids, pa.list_(item) if name != kind else item)
    parquet.write_table(pa.table({"input_ids": column}), tmp_path / "s.parquet")
    with pytest.raises(ValueError, match=re.escape(fault)):
        read_back("parquet", tmp_path)


def test_parquet_without_ids_is_refused(tmp_path: Path) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"text": ["a"]}), tmp_path / "s.parquet")
    with pytest.raises(ValueError, match=r"s\.parquet: .*input_ids"):
        read_back("parquet", tmp_path)


@pytest.mark.parametrize("format", FORMATS)
def test_equal_documents_give_equal_files(format: str, tmp_path: Path) -> None:
    """They depend neither on the time nor on how the documents came."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    dtype = FORMATS[format].dtype(1000)
    one = written(format, tmp_path / "one", [[each] for each in DOCUMENTS], dtype)
    if format == "parquet":
        return  # row groups depend on sizes alone, and pages on pyarrow
    assert one == written(format, tmp_path / "other", [DOCUMENTS], dtype)


@pytest.mark.parametrize("format", ["megatron", "datatrove", "llmc", "nanogpt", "olmo"])
def test_a_machine_of_the_other_byte_order_swaps_all_integers(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under the other byte order, files are big-endian here, and are read back."""
    monkeypatch.setattr(sys, "byteorder", OTHER_BYTE_ORDER)
    dtype = FORMATS[format].dtype(1000)
    found = written(format, tmp_path, [DOCUMENTS[:2], DOCUMENTS[2:]], dtype)
    ids = found[FORMATS[format].extension][1024 if format == "llmc" else 0 :]
    assert ids == np.array(IDS, ">u2").tobytes()
    if format == "megatron":
        assert found[".idx"][34:] == (
            np.array([3, 2, 5], ">i4").tobytes() + np.array([0, 6, 10, 0, 1, 2, 3], ">i8").tobytes()
        )
    if format == "datatrove":
        assert found[".ds.index"] == np.array([3, 5, 10], ">u8").tobytes()
    has_boundaries = format not in ("llmc", "nanogpt")
    assert read_back(format, tmp_path, dtype) == (DOCUMENTS if has_boundaries else [IDS])


@pytest.mark.parametrize(
    ("format", "sizes"),
    [
        ("megatron", {65_499: "uint16", 65_500: "int32"}),
        ("datatrove", {65_536: "uint16", 65_537: "uint32"}),
        ("llmc", {65_536: "uint16", 128_256: "uint32"}),
        ("nanogpt", {50_257: "uint16", 65_536: "uint16"}),
        ("olmo", {65_536: "uint16", 65_537: "uint32"}),
        ("parquet", {65_536: "uint16", 65_537: "uint32"}),
    ],
)
def test_dtype_follows_the_rule_of_the_reader(format: str, sizes: dict[int, str]) -> None:
    assert {size: FORMATS[format].dtype(size) for size in sizes} == sizes


@pytest.mark.parametrize("format", ["megatron", "olmo"])
def test_folder_of_a_large_vocabulary_opens(format: str, tmp_path: Path) -> None:
    tokenizer = Tokenizer.train("", 256, special_tokens=()).with_special_tokens({"<e>": 70_000})
    (tmp_path / "a.txt").write_text("ab")
    corpora.tokenize(Corpus(tmp_path / "a.txt"), tokenizer, tmp_path / "out", format, end="<e>")
    assert [ids.tolist() for ids in corpora.open(tmp_path / "out")] == [[97, 98, 70_000]]


def test_ids_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="16 bits an id, too few for a vocabulary of 65537 ids"):
        FORMATS["nanogpt"].dtype(65_537)


@pytest.mark.parametrize(
    ("format", "extension"),
    [
        ("megatron", ".idx"),
        ("megatron", ".bin"),
        ("datatrove", ".ds.index"),
        ("datatrove", ".ds"),
        ("llmc", ".bin"),
        ("olmo", ".csv.gz"),
        ("olmo", ".npy"),
        ("parquet", ".parquet"),
    ],
)
def test_a_file_that_is_cut_anywhere_is_refused(
    format: str, extension: str, tmp_path: Path
) -> None:
    dtype = FORMATS[format].dtype(1000)
    content = written(format, tmp_path, [DOCUMENTS], dtype)[extension]
    steps = range(0, len(content), 7 if format == "parquet" else 1)
    for size in steps:
        (tmp_path / f"s{extension}").write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"/s\."):
            read_back(format, tmp_path, dtype)


def test_every_changed_byte_of_a_megatron_index_is_found(tmp_path: Path) -> None:
    content = written("megatron", tmp_path, [DOCUMENTS])[".idx"]
    for at in range(len(content)):
        changed = bytearray(content)
        changed[at] ^= 1
        (tmp_path / "s.idx").write_bytes(changed)
        with pytest.raises(ValueError, match=r"s\.(idx|bin)"):
            read_back("megatron", tmp_path)
