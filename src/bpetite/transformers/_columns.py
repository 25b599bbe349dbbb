"""What a usual call returns: ids with special tokens around them, cut and padded, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from bpetite.transformers._engine import Engine, Span

PADS = {
    "input_ids": None,  # the tokenizer has them
    "token_type_ids": None,
    "attention_mask": 0,
    "special_tokens_mask": 1,
    "offset_mapping": (0, 0),
}
"""The names of all columns, in transformers' order, and what pads them."""

Columns = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """The options of a call, with transformers' defaults filled in."""

    names: Sequence[str]
    """The columns that are wanted besides input_ids."""
    is_framed: bool
    splits_special: bool
    max_length: int | None
    truncation: str | None
    """longest_first, only_first or only_second; None to truncate nothing."""
    truncation_side: str
    padding_length: int | None
    """The length of all rows, 0 for that of the longest; None to pad nothing."""
    pad_to_multiple_of: int
    padding_side: str
    pad_id: Any
    pad_type_id: int
    has_arrays: bool
    """Whether columns that are padded are arrays of numpy."""
    is_verbose: bool


def columns_of(engine: Engine, texts: Sequence[list[str]], call: Call) -> Columns | None:
    """Return the columns of texts, or of two lists of texts that make pairs.

    None if they cannot be truncated, or have no UTF-8, so that transformers raises its own error;
    and if their offsets are wanted although they are changed.
    """
    ids: list[list[list[int]]] = []
    spans: list[list[list[Span]]] = []
    try:
        if "offset_mapping" in call.names:
            found = [[engine.spans(text, call.splits_special) for text in each] for each in texts]
            for each in found:
                rows = [row for row in each if row is not None]
                if len(rows) != len(each):
                    return None
                ids.append([row for row, _ in rows])
                spans.append([row for _, row in rows])
        else:
            ids = [engine.ids(each, call.splits_special) for each in texts]
    except UnicodeEncodeError:
        return None
    form = engine.form(len(texts), call.is_framed)
    if call.truncation is not None:
        if call.max_length is None:
            return None
        room = call.max_length - len(form) + len(texts)
        for index, found_ids in enumerate(zip(*ids, strict=True)):
            sizes = [*map(len, found_ids)]
            if sum(sizes) <= room:
                continue
            kept = _kept_sizes(sizes, room, call.truncation)
            if kept is None:
                return None
            column: Any
            for column in (ids, spans):
                for each, size in zip(column, kept, strict=False):
                    row = each[index]
                    start = max(len(row) - size, 0) if call.truncation_side == "left" else 0
                    each[index] = row[start : start + size]
    columns: Columns = {"input_ids": _joined(form, ids, [[place.id] for place in form])}
    sizes = [*map(len, columns["input_ids"])]
    for name in PADS:
        if name not in call.names:
            continue
        if name == "attention_mask":
            columns[name] = [[1] * size for size in sizes]
        elif name == "offset_mapping":
            spans = [[*map(engine.trimmed, *each)] for each in zip(ids, spans, strict=True)]
            columns[name] = _joined(form, spans, [[(0, 0)]] * len(form))
        else:
            of_form = [
                place.type_id if name == "token_type_ids" else int(place.text is None)
                for place in form
            ]
            columns[name] = [
                [
                    value
                    for place, value in zip(form, of_form, strict=True)
                    for _ in range(1 if place.text is None else len(row[place.text]))
                ]
                for row in zip(*ids, strict=True)
            ]
    return columns if call.padding_length is None else _padded(columns, call)


def _joined(form: Any, texts: Sequence[list[Any]], others: list[list[Any]]) -> list[list[Any]]:
    """Return the rows of texts with those of special tokens around them."""
    if len(form) == 1:
        return texts[0]
    parts = [
        other if place.text is None else place.text
        for place, other in zip(form, others, strict=True)
    ]
    rows = []
    for found in zip(*texts, strict=True):
        row: list[Any] = []
        for part in parts:
            row += found[part] if isinstance(part, int) else part
        rows.append(row)
    return rows


def _kept_sizes(sizes: list[int], room: int, strategy: str) -> list[int] | None:
    """Return what the library keeps of one text or two; None if it would raise an error."""
    if room <= 0:
        return None
    if strategy == "longest_first":
        if len(sizes) == 1:
            return [room]
        shorter = min(sizes)
        longer = shorter if shorter > room else max(shorter, room - shorter)
        if shorter + longer > room:
            shorter, longer = room // 2, room // 2 + room % 2
        return [shorter, longer] if sizes[0] <= sizes[1] else [longer, shorter]
    place = int(strategy == "only_second")
    if place >= len(sizes) or sizes[place] <= sum(sizes) - room:
        return None
    kept = [*sizes]
    kept[place] -= sum(sizes) - room
    return kept


def _padded(columns: Columns, call: Call) -> Columns:
    rows = columns["input_ids"]
    sizes = [*map(len, rows)]
    length = call.padding_length or max(sizes)
    length += -length % call.pad_to_multiple_of
    is_left = call.padding_side == "left"
    pads = {**PADS, "input_ids": call.pad_id, "token_type_ids": call.pad_type_id}
    has_arrays = call.has_arrays and max(sizes) <= length
    padded: Columns = {}
    filled: Any = None
    for name, rows in columns.items():
        pad = pads[name]
        if has_arrays and name != "offset_mapping":
            import numpy as np

            if filled is None:
                places = np.arange(length)
                ends = np.array(sizes)[:, None]
                filled = places >= length - ends if is_left else places < ends
            padded[name] = np.full(filled.shape, pad)
            padded[name][filled] = np.fromiter(chain.from_iterable(rows), np.int64, sum(sizes))
            continue
        padded[name] = [
            [pad] * (length - len(row)) + row if is_left else row + [pad] * (length - len(row))
            for row in rows
        ]
    return padded
