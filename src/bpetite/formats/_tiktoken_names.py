"""The names that tiktoken 0.14 knows, and its cache of downloaded files, which is only read.

tiktoken itself is not needed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bpetite._vocabulary import Vocabulary
from bpetite.formats._files import SourceFile, file_in_folder
from bpetite.formats._format import Source
from bpetite.formats._gpt2 import read_pair
from bpetite.formats._reference import Reference
from bpetite.formats._tiktoken import KNOWN, Tiktoken

_STORE = "https://openaipublic.blob.core.windows.net/"

_FIM = ("<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>")
_END = "<|endoftext|>"

_HARMONY = {
    **{f"<|reserved_{id}|>": id for id in range(200000, 201088) if id != 200018},
    **{"<|startoftext|>": 199998, _END: 199999, "<|endofprompt|>": 200018},
    **{"<|return|>": 200002, "<|constrain|>": 200003, "<|channel|>": 200005},
    **{"<|start|>": 200006, "<|end|>": 200007, "<|message|>": 200008, "<|call|>": 200012},
}
for _id in (200002, 200003, 200005, 200006, 200007, 200008, 200012):
    del _HARMONY[f"<|reserved_{_id}|>"]


_FOLDERS = dict.fromkeys(("encoder.json", "vocab.bpe"), "gpt-2/encodings/main")

_HASHES = {
    **{f"{known.name}.tiktoken": digest for digest, known in KNOWN.items()},
    "encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
"""The SHA-256 of each public file."""


class NamedEncoding(NamedTuple):
    """What a name stands for."""

    file: str
    """The public file of ranks, without its ending."""
    models: tuple[str, ...] = ()
    """Names of models, and beginnings of such names, which end in "*"."""
    special_tokens: Mapping[str, int] | None = None
    """None if the hash of the file tells them."""


ENCODINGS = {
    "gpt2": NamedEncoding("r50k_base", ("gpt2", "gpt-2")),
    "r50k_base": NamedEncoding(
        "r50k_base",
        (
            *("davinci", "curie", "babbage", "ada"),
            *(f"text-{name}-001" for name in ("davinci", "curie", "babbage", "ada")),
            *(f"text-similarity-{name}-001" for name in ("davinci", "curie", "babbage", "ada")),
            *(f"text-search-{name}-doc-001" for name in ("davinci", "curie", "babbage", "ada")),
            *("code-search-babbage-code-001", "code-search-ada-code-001"),
        ),
    ),
    "p50k_base": NamedEncoding(
        "p50k_base",
        (
            *("text-davinci-003", "text-davinci-002", "davinci-codex", "cushman-codex"),
            *(f"code-{name}-00{n}" for name in ("davinci", "cushman") for n in (1, 2)),
        ),
    ),
    "p50k_edit": NamedEncoding(
        "p50k_base",
        ("text-davinci-edit-001", "code-davinci-edit-001"),
        {_END: 50256, **{literal: 50281 + place for place, literal in enumerate(_FIM)}},
    ),
    "cl100k_base": NamedEncoding(
        "cl100k_base",
        (
            *("gpt-4", "gpt-3.5-turbo", "gpt-3.5", "gpt-35-turbo", "davinci-002", "babbage-002"),
            *("text-embedding-ada-002", "text-embedding-3-small", "text-embedding-3-large"),
            *("gpt-4-*", "gpt-3.5-turbo-*", "gpt-35-turbo-*"),
            *("ft:gpt-4*", "ft:gpt-3.5-turbo*", "ft:davinci-002*", "ft:babbage-002*"),
        ),
    ),
    "o200k_base": NamedEncoding(
        "o200k_base",
        (
            *("o1", "o3", "o4-mini", "gpt-5", "gpt-4.1", "gpt-4o"),
            *("o1-*", "o3-*", "o4-mini-*", "gpt-5*", "gpt-4.5-*", "gpt-4.1-*"),
            *("chatgpt-4o-*", "gpt-4o-*", "ft:gpt-4o*"),
        ),
    ),
    "o200k_harmony": NamedEncoding("o200k_base", ("gpt-oss-*",), _HARMONY),
}
"""The encodings of tiktoken by name."""

OF_MODEL = {model: name for name, encoding in ENCODINGS.items() for model in encoding.models}
"""The encoding of each model, and of each beginning of such names, which ends in "*"."""


def encoding_of(name: str) -> str | None:
    """Return the encoding that has this name, or that the model of this name uses; or None.

    >>> encoding_of("o200k_base"), encoding_of("gpt-4o-2024-08-06"), encoding_of("llama3")
    ('o200k_base', 'o200k_base', None)
    """
    return name if name in ENCODINGS else encoding_of_model(name)


def encoding_of_model(name: str) -> str | None:
    """Return the encoding of a model; None for another name. The longest beginning counts."""
    beginnings = (name[:end] + "*" for end in range(len(name), 1, -1))
    return next((OF_MODEL[each] for each in (name, *beginnings) if each in OF_MODEL), None)


def from_name(name: str) -> tuple[Vocabulary, Reference | None]:
    """Return the vocabulary of an encoding or a model, from tiktoken's cache, and its reference.

    Raises ValueError for an unknown name and for a cached file of another content,
    FileNotFoundError if the file is not in the cache.
    """
    encoding = encoding_of(name)
    if encoding is None:
        raise ValueError(
            f"tiktoken has no encoding and no model {name!r}; its encodings are "
            f"{', '.join(ENCODINGS)}, and Tokenizer.load reads a file"
        )
    found = read_encoding(encoding)
    if encoding == "o200k_harmony":
        warnings.warn(
            "o200k_harmony has two literals of the id 200018: here <|endofprompt|> is the special "
            "token, and <|reserved_200018|> is text",
            stacklevel=3,  # the caller of Tokenizer.from_tiktoken
        )
    return found


def read_encoding(encoding: str) -> tuple[Vocabulary, Reference | None]:
    """Return the vocabulary of an encoding, from tiktoken's cache, and its reference.

    Raises FileNotFoundError if the file is not in the cache, ValueError if it has another content.
    """
    ranks, _, special_tokens = ENCODINGS[encoding]
    file = _cached(f"{ranks}.tiktoken")
    if file is None:
        pair = [_cached(name) for name in _FOLDERS if encoding == "gpt2"]
        if pair and pair[0] and pair[1]:
            return read_pair(pair[0], pair[1]), None
        raise FileNotFoundError(
            f"{encoding} is not in tiktoken's cache, {cache_folder()}; tiktoken.get_encoding("
            f"{encoding!r}) downloads it once, or Tokenizer.load reads a copy of {ranks}.tiktoken"
        )
    return Tiktoken().read(Source(file, special_tokens=special_tokens))


def cache_folder() -> Path:
    """Return the folder in which tiktoken keeps what it downloaded."""
    names = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
    given = next((os.environ[name] for name in names if name in os.environ), None)
    if given is not None:
        return Path(given)
    import tempfile  # slow to import, and rarely needed

    return Path(tempfile.gettempdir(), "data-gym-cache")


def _cached(name: str) -> SourceFile | None:
    """Return a public file that tiktoken keeps under the SHA-1 of its address; None without it.

    Raises ValueError for a file of another content.
    """
    import hashlib  # slow to import, and rarely needed

    address = f"{_STORE}{_FOLDERS.get(name, 'encodings')}/{name}"
    file = file_in_folder(cache_folder() / hashlib.sha1(address.encode()).hexdigest())
    if not os.path.exists(file.path):
        return None
    if hashlib.sha256(file.data).hexdigest() != _HASHES[name]:
        raise ValueError(
            f"{file.path}: in tiktoken's cache, this should be {name}, and its SHA-256 is another; "
            f"remove it, and tiktoken downloads it again"
        )
    return file
