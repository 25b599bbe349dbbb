"""What a vocabulary does to a text."""

from bpetite.analysis._explain import (
    MAX_PIECE_BYTES,
    ExplainedPiece,
    MergeStep,
    explain,
    merge_ids,
)

__all__ = [
    "MAX_PIECE_BYTES",
    "ExplainedPiece",
    "MergeStep",
    "explain",
    "merge_ids",
]
