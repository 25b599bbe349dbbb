"""Analysis: what a vocabulary does to texts.

`import bpetite` does not load this package.
"""

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
    "MAX_VOCABULARIES",
    "Comparison",
    "CountedToken",
    "NextMerges",
    "Report",
    "TextFigures",
    "Use",
    "VocabularyFigures",
    "page",
    "report",
]
