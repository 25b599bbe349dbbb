"""The pieces of a text with all merges of each, for programs and notebooks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal

from bpetite import Tokenizer
from bpetite.analysis._drawing import environment
from bpetite.analysis._explain import ExplainedPiece, explained, pieces_of

# What a notebook shows at most: tokens, merges, and bytes of a piece with merges.
_SHOWN_TOKENS = 400
_SHOWN_MERGES = 100
_DRAWN_BYTES = 64


class Explanation(Iterator[ExplainedPiece]):
    """An iterator over the pieces of a text: what `explain` returns.

    As the value of a notebook's cell, it shows the tokens in colours and a table of the merges, if
    Jinja is installed. The table begins with the first piece, even if the iterator is past it.

    >>> found = explain(Tokenizer.train("ab ab ab", 258), "ab ab")
    >>> len([*found]), [*found], "2 tokens" in found._repr_html_()
    (2, [], True)
    """

    def __init__(
        self, tokenizer: Tokenizer, text: str, literals: Collection[str], ids: Sequence[int]
    ) -> None:
        self._tokenizer = tokenizer
        self._text = text
        self._literals = literals
        self._ids = ids
        self._rest = self._pieces()

    def __next__(self) -> ExplainedPiece:
        return next(self._rest)

    def _pieces(self) -> Iterator[ExplainedPiece]:
        pieces = pieces_of(self._tokenizer, self._text, self._literals)
        return explained(self._tokenizer, pieces, self._ids)

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows; None without Jinja."""
        try:
            templates = environment("a notebook", number="{:,}".format)
        except ModuleNotFoundError:
            return None
        bytes_of = self._tokenizer.token_bytes
        special_ids = {*self._tokenizer.special_tokens.values()}
        shown = self._ids[:_SHOWN_TOKENS]
        pieces, left_out = self._drawn(len(shown))
        return templates.get_template("explained.html.jinja").render(
            tokenizer=repr(self._tokenizer),
            count=len(self._ids),
            tokens=[(id, bytes_of(id), id in special_ids) for id in shown],
            pieces=[
                (piece, [*zip(piece.steps, [*piece.states()][1:], strict=True)]) for piece in pieces
            ],
            bytes_of=bytes_of,
            left_out=left_out,
        )

    def _drawn(self, count: int) -> tuple[list[ExplainedPiece], int]:
        """Return the pieces of the table, and the number of pieces that it leaves out."""
        found: dict[str, ExplainedPiece] = {}
        tokens = 0
        for piece in self._pieces():
            if tokens >= count:
                break
            tokens += len(piece.ids)
            if piece.steps or piece.kind == "long":
                found[piece.text] = piece
        drawn: list[ExplainedPiece] = []
        merges = 0
        for piece in found.values():
            merges += len(piece.steps)
            if merges <= _SHOWN_MERGES and len(piece.byte_ids) in range(1, _DRAWN_BYTES + 1):
                drawn.append(piece)
        return drawn, len(found) - len(drawn)


def explain(
    tokenizer: Tokenizer, text: str, *, allowed_special: Literal["all"] | Collection[str] = "all"
) -> Explanation:
    """Return an iterator over the pieces of a text, each with the merges that made its ids.

    A piece begins as single bytes, or as characters with byte fallback. Of all pairs of adjacent
    ids, the leftmost one of the lowest rank is merged, again and again. The ids of all pieces,
    joined, are those of `Tokenizer.encode`. Each piece is explained when the iterator reaches it,
    and its cost is O(n log n) in its bytes.

    `allowed_special` is that of `Tokenizer.encode`. The pieces of a vocabulary that normalizes text
    are those of the normalized text. With byte fallback, a piece ends between two characters that
    no merge makes neighbours.

    >>> tokenizer = Tokenizer.train("the hen then met the ten men", 262)
    >>> for piece in explain(tokenizer, "then the"):
    ...     print(repr(piece.text), piece.ids)
    ...     for step in piece.steps:
    ...         print(step.pair, step.rank, step.id, step.token, step.lost)
    'then' (116, 260)
    (101, 110) 0 256 b'en' (104, 101)
    (104, 256) 4 260 b'hen' None
    ' the' (257, 259)
    (32, 116) 1 257 b' t' (104, 101)
    (104, 101) 3 259 b'he' None

    Raises TypeError for a `tokenizer` that is no `Tokenizer` and for a text that is no `str`.
    Raises UnicodeEncodeError for a lone surrogate, and ValueError for an unknown special token in
    `allowed_special`.
    """
    if not isinstance(tokenizer, Tokenizer):
        raise TypeError(f"tokenizer must be a Tokenizer, got {type(tokenizer).__name__}")
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    ids = tokenizer.encode(text, allowed_special=allowed_special)
    literals = tokenizer.special_tokens if allowed_special == "all" else {*allowed_special}
    return Explanation(tokenizer, text, literals, ids)
