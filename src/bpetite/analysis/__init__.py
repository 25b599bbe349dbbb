"""Analysis: what a vocabulary does to texts.

`import bpetite` does not load this package.
"""

from bpetite.analysis._embedding_map import embedding_map
from bpetite.analysis._explain import (
    MAX_PIECE_BYTES,
    ExplainedPiece,
    MergeStep,
    explain,
    merge_ids,
)
from bpetite.analysis._figures import (
    Comparison,
    CountedToken,
    NextMerges,
    Report,
    TextFigures,
    Use,
    VocabularyFigures,
)
from bpetite.analysis._page import MAX_VOCABULARIES, page
from bpetite.analysis._report import report
from bpetite.analysis._split_ids import split_ids

__all__ = [
    "MAX_PIECE_BYTES",
    "MAX_VOCABULARIES",
    "Comparison",
    "CountedToken",
    "ExplainedPiece",
    "MergeStep",
    "NextMerges",
    "Report",
    "TextFigures",
    "Use",
    "VocabularyFigures",
    "embedding_map",
    "explain",
    "merge_ids",
    "page",
    "report",
    "split_ids",
]
