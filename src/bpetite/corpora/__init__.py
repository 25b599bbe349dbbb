"""Corpora: documents from files, for training and for token files.

`import bpetite` does not load this package.
"""

from bpetite._corpus import Batch
from bpetite.corpora._corpus import Corpus, CorpusFile
from bpetite.corpora._inputs import Span
from bpetite.corpora._report import BadDocument, BadDocumentError, Report
from bpetite.corpora._token_files import FORMATS as TOKEN_FORMATS
from bpetite.corpora._tokenize import PART_BYTES, TokenizeProgress, tokenize
from bpetite.corpora._verify import first_documents, verify

__all__ = [
    "PART_BYTES",
    "TOKEN_FORMATS",
    "BadDocument",
    "BadDocumentError",
    "Batch",
    "Corpus",
    "CorpusFile",
    "Report",
    "Span",
    "TokenizeProgress",
    "first_documents",
    "tokenize",
    "verify",
]
