"""Analysis: what a vocabulary does to texts.

`import bpetite` does not load this package.
"""

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
    "explain",
    "merge_ids",
    "page",
    "report",
]
