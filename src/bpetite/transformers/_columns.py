"""The columns that a usual call returns: ids with special tokens around them, perhaps truncated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from bpetite.transformers._engine import Engine, Span

NAMES = ("token_type_ids", "attention_mask", "special_tokens_mask", "offset_mapping")
"""All columns but input_ids, in transformers' order."""

Columns = dict[str, Any]


@dataclass(frozen=True)
class Call:
    """The options of a call, with transformers' defaults filled in."""

    names: Sequence[str]
    """The columns to return, without input_ids."""
    is_framed: bool
    splits_special: bool
    max_length: int | None
    truncation: str | None
    """longest_first, only_first or only_second; None to truncate nothing."""
    truncation_side: str
    overflows: bool
    """Whether the rest of a text that is cut gets rows of its own."""
    stride: int


def columns_of(engine: Engine, texts: Sequence[list[str]], call: Call) -> Columns | None:
    """Return the columns of texts, or of two lists of texts that make pairs.

    None if they cannot be truncated or are not Unicode, so that transformers raises its own error;
    also None if offsets are wanted although the texts are changed.
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
    samples: Sequence[int] = range(len(texts[0]))
    if call.truncation is not None:
        if call.max_length is None:
            return None
        room = call.max_length - len(form) + len(texts)
        if call.stride and call.stride > call.max_length - len(engine.form(len(texts), True)):
            return None
        cuts: list[tuple[int, tuple[slice, ...]]] = []
        for sample, found_ids in enumerate(zip(*ids, strict=True)):
            parts = _parts([*map(len, found_ids)], room, call)
            if parts is None:
                return None
            cuts += ((sample, part) for part in parts)
        samples = [sample for sample, _ in cuts]
        column: Any
        for column in (ids, spans):
            column[:] = (
                [rows[sample][part[text]] for sample, part in cuts]
                for text, rows in enumerate(column)
            )
    columns: Columns = {"input_ids": _joined(form, ids, [[place.id] for place in form])}
    for name in NAMES:
        if name not in call.names:
            continue
        if name == "attention_mask":
            columns[name] = [[1] * len(row) for row in columns["input_ids"]]
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
    if call.overflows:
        columns["overflow_to_sample_mapping"] = [*samples]
    return columns


def _joined(form: Any, texts: Sequence[list[Any]], others: list[list[Any]]) -> list[list[Any]]:
    """Return the rows of texts with the rows of special tokens around them."""
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


def _parts(sizes: list[int], room: int, call: Call) -> list[tuple[slice, ...]] | None:
    """Return which ids of one text or two are in each of their rows.

    None if the library would raise an error, or combine parts of both texts.
    """
    if sum(sizes) <= room:
        return [tuple(slice(size) for size in sizes)]
    kept = _kept_sizes(sizes, room, call.truncation)
    if kept is None:
        return None
    windows = []
    for size, width in zip(sizes, kept, strict=True):
        is_cut, step = size > width, width - call.stride
        if is_cut and step <= 0 and (call.overflows or call.stride):
            return None
        starts = range(0, size - width + step, step) if is_cut and call.overflows else range(1)
        if call.truncation_side == "right":
            windows.append([slice(start, start + width) for start in starts])
        else:
            ends = [size - start for start in starts]
            windows.append([slice(max(end - width, 0), end) for end in ends])
    if min(map(len, windows)) > 1 and len(windows) > 1:
        return None
    return [*product(*windows)]


def _kept_sizes(sizes: list[int], room: int, strategy: str | None) -> list[int] | None:
    """Return how many ids of one text or two the library keeps; None if it would raise an error."""
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
