r"""tiktoken's names over bpetite: `import bpetite.tiktoken as tiktoken` is the only change.

The names, their arguments and defaults, and the classes of errors are those of tiktoken 0.14, and
so are the ids. tiktoken need not be installed, and nothing is downloaded here: `get_encoding` reads
tiktoken's cache, and asks tiktoken for a file that the cache lacks.

>>> import bpetite.tiktoken as tiktoken
>>> ranks = {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256}
>>> encoding = tiktoken.Encoding(
...     "small",
...     pat_str=r"\S+|\s+",
...     mergeable_ranks=ranks,
...     special_tokens={"<|endoftext|>": 257},
... )
>>> encoding.encode("ab<|endoftext|>", allowed_special="all")
[256, 257]
>>> encoding.decode([256, 257])
'ab<|endoftext|>'
"""

from bpetite.tiktoken.core import Encoding
from bpetite.tiktoken.model import encoding_for_model, encoding_name_for_model
from bpetite.tiktoken.registry import get_encoding, list_encoding_names

__all__ = [
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "get_encoding",
    "list_encoding_names",
]

__version__ = "0.14.0"
"""The version of tiktoken that has these names."""
