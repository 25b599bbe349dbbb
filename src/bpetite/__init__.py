"""bpetite: a byte-level BPE tokenizer that trains, encodes, decodes and streams."""

from typing import TYPE_CHECKING

from bpetite._engine.choice import engine
from bpetite._lazy import lazy_names

if TYPE_CHECKING:
    from bpetite._arguments import Trusted
    from bpetite._budget import Chunk
    from bpetite._corpus import CorpusWarning
    from bpetite._engine.fallback import SlowEngineWarning
    from bpetite._piece_counts.counts import PieceCounts
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
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "Trusted": "_arguments.Trusted",
            "Chunk": "_budget.Chunk",
            "CorpusWarning": "_corpus.CorpusWarning",
            "SlowEngineWarning": "_engine.fallback.SlowEngineWarning",
            "PieceCounts": "_piece_counts.counts.PieceCounts",
            "PATTERNS": "_pretokenizer.PATTERNS",
            "TrainingProgress": "_progress.TrainingProgress",
            "DecodeStreamBatch": "_streaming.batch.DecodeStreamBatch",
            "DecodeStreamBatchError": "_streaming.batch.DecodeStreamBatchError",
            "EncodeStream": "_streaming.encode_stream.EncodeStream",
            "StreamEvent": "_streaming.events.StreamEvent",
            "ExtendIdsError": "_streaming.extending.ExtendIdsError",
            "DecodeStreamError": "_streaming.mode.DecodeStreamError",
            "Change": "_streaming.prompt.Change",
            "Prompt": "_streaming.prompt.Prompt",
            "Tag": "_streaming.stops.Tag",
            "DecodeStream": "_streaming.stream.DecodeStream",
            "StreamVocabulary": "_streaming.vocabulary.StreamVocabulary",
            "TokenText": "_streaming.watching.TokenText",
            "Tokenizer": "_tokenizer.Tokenizer",
        },
    )

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
