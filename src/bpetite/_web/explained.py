"""The merges of the piece that has a token, as the page draws them."""

from __future__ import annotations

from typing import Any

from bpetite import Tokenizer
from bpetite.analysis import explain

MAX_DRAWN_BYTES = 256
"""The longest piece whose merge tree is drawn."""


def explained(tokenizer: Tokenizer, text: str, at: int, ordinary: bool) -> dict[str, Any] | None:
    """Return the piece that the token number `at` of a text is in; None if the text is shorter.

    `first` is the number of the first token of the piece. `tokens` has the bytes of each id in it.

    >>> found = explained(Tokenizer.train("ab ab ab", 258), "ab ab", 1, True)
    >>> found["piece"], found["first"], found["ids"], found["steps"][0]["pair"]
    (' ab', 1, (257,), (97, 98))
    """
    first = 0
    for piece in explain(tokenizer, text, allowed_special=() if ordinary else "all"):
        if at < first + len(piece.ids):
            break
        first += len(piece.ids)
    else:
        return None
    size = len(piece.text.encode("utf-8"))
    is_drawn = piece.kind != "merged" or size <= MAX_DRAWN_BYTES
    steps = [
        {
            "pair": step.pair,
            "rank": step.rank,
            "id": step.id,
            "parts": step.parts,
            "lost": step.lost,
            "lost_rank": step.lost_rank,
        }
        for step in (piece.steps if is_drawn else ())
    ]
    lost = [id for step in piece.steps for id in step.lost or ()]
    ids = {*piece.ids, *piece.byte_ids, *(step.id for step in piece.steps), *lost}
    return {
        "piece": piece.text,
        "bytes": size,
        "max_bytes": MAX_DRAWN_BYTES,
        "kind": piece.kind if is_drawn else "long",
        "first": first,
        "ids": piece.ids,
        "byte_ids": piece.byte_ids if is_drawn else (),
        "steps": steps,
        "roots": piece.roots if is_drawn else (),
        "tokens": {id: tokenizer.token_bytes(id).hex(" ").upper() for id in sorted(ids)},
    }
