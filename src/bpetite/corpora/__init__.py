"""Corpora: documents from files, for training and for token files.

`import bpetite` does not load this package.
"""

from typing import TYPE_CHECKING

from bpetite._lazy import lazy_names

if TYPE_CHECKING:
    from bpetite._corpus import Batch
    from bpetite.corpora._corpus import Corpus, CorpusFile, CorpusReport
    from bpetite.corpora._encode import Block, count, encode
    from bpetite.corpora._found import BadDocument, BadDocumentError
    from bpetite.corpora._inputs.settings import Span
    from bpetite.corpora._opened import TokenFolder, open
    from bpetite.corpora._part import tokenize_part
    from bpetite.corpora._plan import Part, plan
    from bpetite.corpora._repair import Repair, repair
    from bpetite.corpora._run import TokenizeProgress, finish, tokenize, tokenize_parts
    from bpetite.corpora._token_files import FORMATS as TOKEN_FORMATS
    from bpetite.corpora._verify import verify
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Batch": "_corpus.Batch",
            "Corpus": "_corpus.Corpus",
            "CorpusFile": "_corpus.CorpusFile",
            "CorpusReport": "_corpus.CorpusReport",
            "Block": "_encode.Block",
            "count": "_encode.count",
            "encode": "_encode.encode",
            "BadDocument": "_found.BadDocument",
            "BadDocumentError": "_found.BadDocumentError",
            "Span": "_inputs.settings.Span",
            "TokenFolder": "_opened.TokenFolder",
            "open": "_opened.open",
            "tokenize_part": "_part.tokenize_part",
            "Part": "_plan.Part",
            "plan": "_plan.plan",
            "Repair": "_repair.Repair",
            "repair": "_repair.repair",
            "TokenizeProgress": "_run.TokenizeProgress",
            "finish": "_run.finish",
            "tokenize": "_run.tokenize",
            "tokenize_parts": "_run.tokenize_parts",
            "TOKEN_FORMATS": "_token_files.FORMATS",
            "verify": "_verify.verify",
        },
    )

__all__ = [
    "TOKEN_FORMATS",
    "BadDocument",
    "BadDocumentError",
    "Batch",
    "Block",
    "Corpus",
    "CorpusFile",
    "CorpusReport",
    "Part",
    "Repair",
    "Span",
    "TokenFolder",
    "TokenizeProgress",
    "count",
    "encode",
    "finish",
    "open",
    "plan",
    "repair",
    "tokenize",
    "tokenize_part",
    "tokenize_parts",
    "verify",
]
