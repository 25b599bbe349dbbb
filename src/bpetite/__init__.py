"""bpetite: a byte-level BPE tokenizer that trains, encodes, decodes and streams."""

from bpetite._engine import engine
from bpetite._pretokenizer import PATTERNS
from bpetite._progress import TrainingProgress
from bpetite._stop import Tag
from bpetite._stream import DecodeStream, DecodeStreamError, Snapshot, TokenText
from bpetite._stream_vocabulary import StreamVocabulary
from bpetite._streams import DecodeStreams, DecodeStreamsError
from bpetite._tokenizer import Tokenizer

__all__ = [
    "PATTERNS",
    "DecodeStream",
    "DecodeStreamError",
    "DecodeStreams",
    "DecodeStreamsError",
    "Snapshot",
    "StreamVocabulary",
    "Tag",
    "TokenText",
    "Tokenizer",
    "TrainingProgress",
    "__version__",
    "engine",
]

__version__ = "0.1.0"
