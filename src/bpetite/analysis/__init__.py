"""Analysis: what a vocabulary does to texts.

`import bpetite` does not load this package.
"""

from bpetite.analysis._embedding_map import embedding_map
from bpetite.analysis._explain import ExplainedPiece, MergeStep, merge_ids
from bpetite.analysis._explanation import Explanation, explain
from bpetite.analysis._figures import Report
from bpetite.analysis._page import page
from bpetite.analysis._report import report
from bpetite.analysis._split_ids import split_ids
from bpetite.analysis._verifier import Verifier

__all__ = [
    "ExplainedPiece",
    "Explanation",
    "MergeStep",
    "Report",
    "Verifier",
    "embedding_map",
    "explain",
    "merge_ids",
    "page",
    "report",
    "split_ids",
]
