"""bpetite: a byte-level BPE tokenizer that trains, encodes, decodes and streams."""

from bpetite._engine import engine
from bpetite._pretokenizer import PATTERNS
from bpetite._progress import TrainingProgress
from bpetite._stream import DecodeStream
from bpetite._tokenizer import Tokenizer

__all__ = ["PATTERNS", "DecodeStream", "Tokenizer", "TrainingProgress", "__version__", "engine"]

__version__ = "0.1.0"
