"""Corpora: documents from files, for training and for token files.

`import bpetite` does not load this package.
"""

from bpetite._corpus import Batch
from bpetite.corpora._corpus import Corpus, CorpusFile, Report
from bpetite.corpora._encode import Block, count, encode
from bpetite.corpora._found import BadDocument, BadDocumentError
from bpetite.corpora._inputs.settings import Span
from bpetite.corpora._opened import Blocks, PackedBlock, TokenFolder, open
from bpetite.corpora._part import tokenize_part
from bpetite.corpora._plan import Part, plan
from bpetite.corpora._repair import Repair, repair
from bpetite.corpora._run import TokenizeProgress, finish, tokenize, tokenize_parts
from bpetite.corpora._token_files import FORMATS as TOKEN_FORMATS
from bpetite.corpora._verify import verify

__all__ = [
    "TOKEN_FORMATS",
    "BadDocument",
    "BadDocumentError",
    "Batch",
    "Block",
    "Blocks",
    "Corpus",
    "CorpusFile",
    "PackedBlock",
    "Part",
    "Repair",
    "Report",
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
