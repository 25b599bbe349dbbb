"""bpetite: a byte-level BPE tokenizer that trains, encodes, decodes and streams."""

from importlib import import_module
from typing import TYPE_CHECKING

from bpetite._engine.choice import engine

if TYPE_CHECKING:
    from bpetite._arguments import Trusted
    from bpetite._budget import Chunk
    from bpetite._corpus import CorpusWarning
    from bpetite._engine.fallback import SlowEngineWarning
    from bpetite._piece_counts.counts import PieceCounts
    from bpetite._piece_counts.file import PieceCountsHeader
    from bpetite._pretokenizer import PATTERNS
    from bpetite._progress import TrainingProgress
    from bpetite._streaming.batch import DecodeStreamBatch, DecodeStreamBatchError
    from bpetite._streaming.encode_stream import EncodeStream
    from bpetite._streaming.events import StreamEvent
    from bpetite._streaming.extending import ExtendIdsError
    from bpetite._streaming.mode import DecodeStreamError
    from bpetite._streaming.prompt import Change, Prompt
    from bpetite._streaming.stops import Tag
    from bpetite._streaming.stream import DecodeStream
    from bpetite._streaming.vocabulary import StreamVocabulary
    from bpetite._streaming.watching import TokenText
    from bpetite._tokenizer import Tokenizer
else:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used: a program uses few of them."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(f"bpetite.{_MODULE_OF[name]}"), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return ["__all__", *__all__]


__all__ = [
    "PATTERNS",
    "Change",
    "Chunk",
    "CorpusWarning",
    "DecodeStream",
    "DecodeStreamBatch",
    "DecodeStreamBatchError",
    "DecodeStreamError",
    "EncodeStream",
    "ExtendIdsError",
    "PieceCounts",
    "PieceCountsHeader",
    "Prompt",
    "SlowEngineWarning",
    "StreamEvent",
    "StreamVocabulary",
    "Tag",
    "TokenText",
    "Tokenizer",
    "TrainingProgress",
    "Trusted",
    "__version__",
    "engine",
]

__version__ = "0.1.0"
"""The version of bpetite, which follows Semantic Versioning."""

_MODULE_OF = {
    "Trusted": "_arguments",
    "Chunk": "_budget",
    "CorpusWarning": "_corpus",
    "SlowEngineWarning": "_engine.fallback",
    "PieceCounts": "_piece_counts.counts",
    "PieceCountsHeader": "_piece_counts.file",
    "PATTERNS": "_pretokenizer",
    "TrainingProgress": "_progress",
    "DecodeStreamBatch": "_streaming.batch",
    "DecodeStreamBatchError": "_streaming.batch",
    "EncodeStream": "_streaming.encode_stream",
    "StreamEvent": "_streaming.events",
    "ExtendIdsError": "_streaming.extending",
    "DecodeStreamError": "_streaming.mode",
    "Change": "_streaming.prompt",
    "Prompt": "_streaming.prompt",
    "Tag": "_streaming.stops",
    "DecodeStream": "_streaming.stream",
    "StreamVocabulary": "_streaming.vocabulary",
    "TokenText": "_streaming.watching",
    "Tokenizer": "_tokenizer",
}
