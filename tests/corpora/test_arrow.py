"""Columns of each library have the ids of their texts, whatever their layout."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.engines import quick_once

from bpetite import Tokenizer
from bpetite.corpora import Corpus

pa = pytest.importorskip("pyarrow")

from bpetite import arrow  # noqa: E402

pytestmark = quick_once

TEXTS = ["the hen", None, "", "met the ten men 🙂", "你好" * 9, "<|endoftext|>", None, "x" * 100]
TOKENIZER = Tokenizer.train([text for text in TEXTS if text], 290)
IDS = [None if text is None else TOKENIZER.encode_ordinary(text) for text in TEXTS]


def polars(values: list[str | None]) -> Any:
    return pytest.importorskip("polars").Series("text", values)


def pandas(values: list[str | None]) -> Any:
    return pytest.importorskip("pandas", minversion="3").Series(values, dtype="str")


def nanoarrow(values: list[str | None]) -> Any:
    return pytest.importorskip("nanoarrow").Array(pa.array(values))


def duckdb(values: list[str | None]) -> Any:
    connection = duckdb_connection()
    connection.register("texts", pa.table({"number": range(len(values)), "text": values}))
    return connection.sql("select text from texts order by number")


@cache
def duckdb_connection() -> Any:
    """Return a connection that stays open: free-threaded Python closes it before its results."""
    return pytest.importorskip("duckdb").connect()


def categories(values: list[str | None]) -> Any:
    return pa.array(values).dictionary_encode()


def of_type(type: Any) -> Any:
    return lambda values: pa.array(values).cast(type)


LAYOUTS = {
    "string": of_type(pa.string()),
    "large string": of_type(pa.large_string()),
    "string view": of_type(pa.string_view()),
    "binary": of_type(pa.binary()),
    "large binary": of_type(pa.large_binary()),
    "binary view": lambda values: pa.array(
        [None if text is None else text.encode() for text in values], pa.binary_view()
    ),
    "categories": categories,
    "slice": lambda values: pa.array(["before", *values, "behind"])[1:-1],
    "chunks": lambda values: pa.chunked_array([values[:3], [], values[3:]], pa.string()),
    "column of a table": lambda values: pa.table({"text": values})["text"],
    "column of a batch": lambda values: pa.record_batch({"text": values})["text"],
    "table of one column": lambda values: pa.table({"text": values}),
    "polars": polars,
    "pandas": pandas,
    "nanoarrow": nanoarrow,
    "duckdb": duckdb,
}


@pytest.mark.parametrize("make", LAYOUTS.values(), ids=LAYOUTS)
def test_every_layout_gives_the_ids_of_its_texts(make: Any) -> None:
    column = make(TEXTS)
    ids = arrow.encode(TOKENIZER, column)
    assert ids.type == pa.list_(pa.uint32())
    assert ids.to_pylist() == IDS
    ids.validate(full=True)
    counts = arrow.count(TOKENIZER, column)
    assert counts.to_pylist() == [None if its is None else len(its) for its in IDS]
    assert arrow.decode(TOKENIZER, ids).to_pylist() == TEXTS


def test_arrays_give_arrays_and_streams_chunks() -> None:
    assert isinstance(arrow.encode(TOKENIZER, pa.array(TEXTS)), pa.Array)
    chunks = pa.chunked_array([TEXTS[:3], TEXTS[3:]])
    ids = arrow.encode(TOKENIZER, chunks)
    assert [len(chunk) for chunk in ids.chunks] == [3, len(TEXTS) - 3]


def test_boundaries_go_around_each_text() -> None:
    end = TOKENIZER.special_tokens["<|endoftext|>"]
    ids = arrow.encode(TOKENIZER, pa.array(TEXTS), dtype="uint16", begin=97, end="<|endoftext|>")
    assert ids.type == pa.list_(pa.uint16())
    assert ids.to_pylist() == [None if its is None else [97, *its, end] for its in IDS]


def test_text_under_a_null_is_not_read() -> None:
    """Arrow permits any bytes there, also such as are not UTF-8."""
    data, offsets = b"ab\xff\xfecd", np.array([0, 2, 4, 6], np.int32)
    valid = pa.py_buffer(bytes([0b101]))
    column = pa.Array.from_buffers(
        pa.string(), 3, [valid, pa.py_buffer(offsets), pa.py_buffer(data)]
    )
    assert arrow.encode(TOKENIZER, column).to_pylist() == [[97, 98], None, [99, 100]]
    assert arrow.count(TOKENIZER, column).to_pylist() == [2, None, 2]


@pytest.mark.parametrize("column", [pa.array([], "string"), pa.chunked_array([], pa.string())])
def test_an_empty_column_has_its_type(column: Any) -> None:
    ids = arrow.encode(TOKENIZER, column)
    assert (len(ids), ids.type) == (0, pa.list_(pa.uint32()))
    assert arrow.count(TOKENIZER, column).type == pa.int32()


def test_only_nulls_give_nulls() -> None:
    assert arrow.encode(TOKENIZER, pa.nulls(3)).to_pylist() == [None] * 3
    assert arrow.encode(TOKENIZER, pa.nulls(3, pa.string())).to_pylist() == [None] * 3


@pytest.mark.parametrize("max_bytes", [1, 2, 7, 100])
def test_slices_change_nothing(max_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_ENCODED_BYTES", max_bytes)
    monkeypatch.setattr(arrow, "_COUNTED_BYTES", max_bytes)
    column = pa.array(TEXTS)
    assert arrow.encode(TOKENIZER, column).to_pylist() == IDS
    counts = arrow.count(TOKENIZER, column)
    assert counts.to_pylist() == [None if its is None else len(its) for its in IDS]


@given(st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=20), st.data())
def test_any_slice_of_any_texts(texts: list[str | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(texts)))
    end = data.draw(st.integers(start, len(texts)))
    column = pa.array(texts, pa.string())[start:end]
    expected = [None if text is None else TOKENIZER.encode_ordinary(text) for text in texts]
    ids = arrow.encode(TOKENIZER, column)
    assert ids.to_pylist() == expected[start:end]
    assert arrow.decode(TOKENIZER, ids).to_pylist() == texts[start:end]


def test_ids_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    column = pa.array(["the hen "] * 1000)
    addresses = []
    real = Tokenizer.encode_buffer

    def spied(*arguments: Any, **options: Any) -> Any:
        data = np.frombuffer(arguments[1], np.uint8)
        ids, starts = real(*arguments, **options)
        addresses.extend([data.ctypes.data, np.asarray(ids).ctypes.data])
        return ids, starts

    monkeypatch.setattr(Tokenizer, "encode_buffer", spied)
    ids = arrow.encode(TOKENIZER, column)
    assert addresses == [column.buffers()[2].address, ids.values.buffers()[1].address]


def test_libraries_take_the_ids() -> None:
    ids = arrow.encode(TOKENIZER, pa.array(TEXTS))
    series = pytest.importorskip("polars").Series(ids)
    assert series.to_list() == IDS
    table = pa.table({"ids": ids})
    connection = duckdb_connection()
    connection.register("found", table)
    assert [row[0] for row in connection.sql("select ids from found").fetchall()] == IDS


@pytest.mark.parametrize("type", ["uint8", "int16", "uint16", "int32", "int64", "uint64"])
def test_ids_of_any_integer_type_are_decoded(type: str) -> None:
    column = pa.array([[104, 105], None, []], pa.list_(getattr(pa, type)()))
    assert arrow.decode(TOKENIZER, column).to_pylist() == ["hi", None, ""]
    assert arrow.decode(TOKENIZER, column[1:]).to_pylist() == [None, ""]
    large = column.cast(pa.large_list(getattr(pa, type)()))
    assert arrow.decode(TOKENIZER, pa.chunked_array([large])).to_pylist() == ["hi", None, ""]


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (["a list"], r"got list; for a list of texts, pass pyarrow\.array\(texts\)"),
        (pa.array([1, 2]), "the column must have strings, got int64"),
        (pa.table({"a": ["x"], "b": ["y"]}), "got Table; pass one of its columns"),
        (pa.record_batch({"a": ["x"], "b": ["y"]}), "pass one of its columns"),
    ],
)
def test_other_columns_are_refused(column: Any, reason: str) -> None:
    with pytest.raises(TypeError, match=reason):
        arrow.encode(TOKENIZER, column)


def test_columns_without_lists_of_ids_are_not_decoded() -> None:
    with pytest.raises(TypeError, match="must have lists of ids, got string"):
        arrow.decode(TOKENIZER, pa.array(["a"]))
    with pytest.raises(TypeError, match="a null in place of an id"):
        arrow.decode(TOKENIZER, pa.array([[1, None]]))


def test_text_that_is_not_utf8_is_named() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        arrow.encode(TOKENIZER, pa.array([b"ab", b"\xff"]))
    assert caught.value.__notes__ == ["in document 1, which begins at byte 2 of data"]


@pytest.mark.parametrize("dtype", [np.uint16, np.dtype("uint16"), "uint16"])
def test_ids_have_the_type_of_any_name_of_it(dtype: Any) -> None:
    column = pa.array(["ab", None])
    assert arrow.encode(TOKENIZER, column, dtype=dtype).type == pa.list_(pa.uint16())


@pytest.mark.parametrize("categories", ["Categorical", "Enum"])
def test_categories_of_polars_are_texts(categories: str) -> None:
    polars = pytest.importorskip("polars")
    dtype = (
        polars.Categorical if categories == "Categorical" else polars.Enum(["a long category", "b"])
    )
    column = polars.Series(["a long category", None, "b", "a long category"], dtype=dtype)
    texts = polars.Series(column.to_list())
    assert arrow.encode(TOKENIZER, column).to_pylist() == arrow.encode(TOKENIZER, texts).to_pylist()
    assert arrow.count(TOKENIZER, column).to_pylist() == arrow.count(TOKENIZER, texts).to_pylist()


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.uint16(), 2),
        pa.list_view(pa.uint16()),
        pa.large_list_view(pa.int64()),
        pa.large_list(pa.uint8()),
    ],
    ids=str,
)
def test_lists_of_all_kinds_are_decoded(kind: Any) -> None:
    column = pa.array([[97, 98], None, [99, 100], [101, 102]], kind)
    texts = ["ab", None, "cd", "ef"]
    assert arrow.decode(TOKENIZER, column).to_pylist() == texts
    assert arrow.decode(TOKENIZER, column.slice(1)).to_pylist() == texts[1:]
    assert arrow.decode(TOKENIZER, column.slice(2, 1)).to_pylist() == texts[2:3]
    with pytest.raises(TypeError, match="a null in place of an id"):
        arrow.decode(TOKENIZER, pa.array([[97, None]], kind))


def test_views_of_a_list_may_overlap() -> None:
    ids = pa.ListViewArray.from_arrays([1, 0], [2, 2], pa.array([97, 98, 99], pa.uint16()))
    assert arrow.decode(TOKENIZER, ids).to_pylist() == ["bc", "ab"]


def test_a_file_of_categories_has_their_texts(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    texts = ["a long category", "b", "a long category"]
    frame = polars.DataFrame({"text": polars.Series(texts, dtype=polars.Categorical)})
    frame.write_ipc(tmp_path / "a.arrow")
    frame.write_ipc_stream(tmp_path / "b.arrow")
    assert [*Corpus(tmp_path / "a.arrow")] == [*Corpus(tmp_path / "b.arrow")] == texts
