"""tiktoken's ranks: a file, which may lie in a model folder, or a `tiktoken.Encoding`.

tiktoken joins any two neighbours whose joined bytes are a token, and starts with the lowest rank.
Our merges name two ids instead, so `_tiktoken_merges` finds the one merge that makes each token.
"""

from __future__ import annotations

import base64
import binascii
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from bpetite._engine.chosen import ENGINE
from bpetite._pretokenizer import PATTERNS, TIKTOKEN_CL100K, Pretokenizer, pattern_of
from bpetite._vocabulary import (
    BYTE_COUNT,
    MAX_ID,
    NO_STAGES,
    NativeVocabulary,
    Vocabulary,
    check_id_range,
    check_special_tokens,
)
from bpetite.formats._files import SourceFile
from bpetite.formats._format import (
    TOKEN_FIELDS,
    Format,
    Source,
    check_no_fallback,
    check_round_trip,
    refuse_vocabulary,
)
from bpetite.formats._model_folder import in_folder, tokens_in_folder
from bpetite.formats._portable_regex import check_shared, to_portable
from bpetite.formats._reference import Encode, Reference, finder
from bpetite.formats._tiktoken_merges import find_merges


class Known(NamedTuple):
    """What a public file lacks, but its SHA-256 tells."""

    name: str
    pattern: str
    special_tokens: Mapping[str, int]
    digest: str
    """`ids_digest` of PROBE and all special tokens, with the ids of tiktoken 0.14.0."""


# The public files by SHA-256 (openai/tiktoken, tiktoken_ext/openai_public.py).
_END = "<|endoftext|>"
KNOWN = {
    "306cd27f03c1a714eca7108e03d66b7dc042abe8c258b44c199a7ed9838dd930": Known(
        "r50k_base",
        PATTERNS["gpt2"],
        {_END: 50256},
        "482425f87bcd42ea71e5cf56fadc922b2e1620841215581219293c2578293255",
    ),
    "94b5ca7dff4d00767bc256fdd1b27e5b17361d7b8a5f968547f9f23eb70d2069": Known(
        "p50k_base",
        PATTERNS["gpt2"],
        {_END: 50256},
        "44bf607286983cfa8c4d18ad033b96d26c2732440ef017ba524ad42e5e1df187",
    ),
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7": Known(
        "cl100k_base",
        TIKTOKEN_CL100K,
        {
            _END: 100257,
            "<|fim_prefix|>": 100258,
            "<|fim_middle|>": 100259,
            "<|fim_suffix|>": 100260,
            "<|endofprompt|>": 100276,
        },
        "843b5257388a3600740b78c97ea05a1b2b0229433f3651f6304c5e3b2be8aa36",
    ),
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d": Known(
        "o200k_base",
        PATTERNS["o200k"],
        {_END: 199999, "<|endofprompt|>": 200018},
        "ebfa51c39d9cd398c74c32c62449fe83e11d518580f66113a1bea10e153b9776",
    ),
}

# tiktoken never makes the token of the highest id: it stands for "no rank".
_MAX_RANK = MAX_ID - 1

# How Whisper's files spell a token of no bytes.
_NO_BYTES = b"="

# Finding the merge of a token takes up to a thousand times as many bytes as the token has.
_MAX_TOKEN_BYTES = 1 << 20

_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} [0-9]{1,10}\r?\n")
_LINE_OF_BYTE = re.compile(rb"^([A-Za-z0-9+/][AQgw]==) [0-9]", re.MULTILINE)

# The beginning of a file of ranks, even if a line or two are wrong. No JSON object begins so.
_LIKELY = re.compile(rb"\s*+(?!\{)(?:.*\n){0,9}?[A-Za-z0-9+/]+=* +\d+\s*?(?:\n|$)")

from_base64 = partial(binascii.a2b_base64, strict_mode=True)


class Tiktoken(Format):
    """A file of ranks, without a pattern or special tokens; a model folder may have them."""

    name = "tiktoken"
    file_name = "*.tiktoken"
    folder_files = ("tiktoken.model", "tokenizer.model", "*.tiktoken")
    is_json = False
    has_pattern = False

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether most single bytes have a rank."""
        if not _LINE.match(file.data):
            return False
        return len(set(_LINE_OF_BYTE.findall(file.data))) > BYTE_COUNT // 2

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether one of the first ten lines is a token and its rank."""
        return bool(_LIKELY.match(file.data))

    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        """Return the vocabulary of a file of ranks.

        The default pattern and special tokens come from the model folder or, if the file is a
        public one, from what is known of it.
        """
        file, pattern, special_tokens = source.file, source.pattern, source.special_tokens
        kept: frozenset[str] = frozenset()
        if source.folder is not None:
            pattern, special_tokens, kept = tokens_in_folder(source.folder, pattern, special_tokens)
        if pattern is not None:
            pattern = to_portable(pattern_of(pattern), tiktoken=True)
        ranks = _ranks(file)
        known = _known_of(file.data)
        if pattern is None:
            if known is None:
                raise ValueError(
                    f"{file.path}: a .tiktoken file lacks the pattern and the special tokens, and "
                    f"this file is not a public one whose pattern is known: give both (pattern=, "
                    f"special_tokens=), or record them once with `bpetite convert --pattern "
                    f"--special-token`"
                )
            pattern = known.pattern
        if special_tokens is None:
            special_tokens = known.special_tokens if known else None
        with file.path_in_errors():
            vocabulary = from_ranks(ranks, special_tokens or {}, pattern)
        if special_tokens is None:
            warnings.warn(
                f"{file.path}: a .tiktoken file lacks the special tokens, so literals such as "
                f"{_END} are text: give them as special_tokens= (--special-token), or {{}} for "
                f"none",
                stacklevel=4,  # the caller of Tokenizer.load
            )
        if source.folder is not None:
            vocabulary = in_folder(source.folder, replace(vocabulary, kept_special_tokens=kept))
            file.check_unchanged()
            if vocabulary.stages != NO_STAGES:
                return vocabulary, None  # tiktoken does not read the folder
        digest = None
        if known and known[1:3] == (vocabulary.pattern, vocabulary.special_tokens):
            digest = known.digest
        return vocabulary, _reference(vocabulary, digest=digest)

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:
        file = SourceFile(path, to_bytes(vocabulary))
        with file.path_in_errors():
            read_back = from_ranks(_ranks(file), vocabulary.special_tokens, vocabulary.pattern)
        check_merges(vocabulary, read_back)
        check_round_trip(vocabulary, read_back, path, TOKEN_FIELDS)
        _check_known(vocabulary, file)
        if not _matches_all(vocabulary.pattern):
            warnings.warn(
                "tiktoken drops the text that a pattern does not match, and this pattern does not "
                "match all text; bpetite keeps it",
                stacklevel=4,  # the caller of Tokenizer.save
            )
        return {path: file.data}


def _reference(
    vocabulary: Vocabulary, encoding: Any = None, digest: str | None = None
) -> Reference | None:
    # The pattern of a public file matches all text; to find that out takes longer than the file.
    if digest is None and not _matches_all(vocabulary.pattern):
        return None  # tiktoken drops unmatched text, so its ids differ by design
    return Reference(
        "tiktoken",
        lambda: reference_encode(vocabulary, encoding),
        digest,
        None if encoding else lambda ids: encode_like(vocabulary, ids),
    )


def reference_of(vocabulary: Vocabulary) -> Reference | None:
    """Return tiktoken as the reference of any vocabulary; None if the pattern leaves text out.

    Raises ValueError if tiktoken cannot hold the vocabulary.
    """
    file = SourceFile("the vocabulary", to_bytes(vocabulary))
    check_merges(
        vocabulary, from_ranks(_ranks(file), vocabulary.special_tokens, vocabulary.pattern)
    )
    return _reference(vocabulary)


@lru_cache
def _matches_all(pattern: str) -> bool:
    return Pretokenizer(pattern).matches_all()


def _known_of(data: bytes) -> Known | None:
    """Return what is known of a public file, with any line endings; None for other files."""
    import hashlib  # slow to import, and rarely needed

    return KNOWN.get(hashlib.sha256(data.replace(b"\r\n", b"\n")).hexdigest())


def _check_known(vocabulary: Vocabulary, file: SourceFile) -> None:
    """Raise ValueError if `read` would take the file for a public one, and so lose something."""
    if not (known := _known_of(file.data)):
        return
    read_back = Vocabulary((), known.special_tokens, known.pattern)
    names = "pattern", "special_tokens", "prefix_ids", "suffix_ids"
    for name in (*names, "kept_special_tokens", "added_tokens"):
        if getattr(vocabulary, name) != getattr(read_back, name):
            raise ValueError(
                f"{file.path}: load knows these public ranks, and would lose the "
                f"{name.replace('_', ' ')} of this vocabulary; save it as .json or "
                f"tokenizer.json, which hold all"
            )


def _ranks(file: SourceFile) -> Mapping[bytes, int] | NativeVocabulary:
    return ENGINE.read_ranks(file.data, _MAX_RANK, _MAX_TOKEN_BYTES) or ranks_of_lines(file)


def ranks_of_lines(file: SourceFile) -> dict[bytes, int]:
    """Return the rank of each token. Raises ValueError for a line that is wrong."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(file.data.splitlines(), 1):
        if not (words := line.split()):
            continue
        wanted = "a token in base64, a space and its rank"
        try:
            encoded, rank = words
            token = b"" if encoded == _NO_BYTES else from_base64(encoded)
            if (token or encoded == _NO_BYTES) and rank.isdigit() and len(rank) <= 10:
                if token not in ranks:
                    ranks[token] = int(rank)
                    continue
                wanted = "a token that no line above has"
        except ValueError:
            pass
        file.refuse(f"line {number}", line[:100].decode("latin-1"), wanted)
    return ranks


def from_encoding(encoding: Any) -> tuple[Vocabulary, Reference | None]:
    """Return the vocabulary of a `tiktoken.Encoding`, and the Encoding as reference.

    Raises TypeError for any other object.
    """
    try:
        ranks, special_tokens = encoding._mergeable_ranks, encoding._special_tokens
        pattern = encoding._pat_str
    except AttributeError:
        raise TypeError(
            f"expected a tiktoken.Encoding or its name, got {type(encoding).__name__}; "
            "Tokenizer.load reads the files of other libraries"
        ) from None
    vocabulary = from_ranks(ranks, special_tokens, to_portable(pattern, tiktoken=True))
    return vocabulary, _reference(vocabulary, encoding)


def from_ranks(
    ranks: Mapping[bytes, int] | NativeVocabulary, special_tokens: Mapping[str, int], pattern: str
) -> Vocabulary:
    """Return the vocabulary with the ids that tiktoken gives for ranks, maybe in native form.

    >>> ranks = {**{bytes([byte]): byte for byte in range(256)}, b"ab": 256, b"abab": 257}
    >>> from_ranks(ranks, {}, "...").merges
    ((97, 98), (256, 256))

    Raises ValueError if a byte has no rank, two tokens share a rank, or a special token has the
    rank of another token or begins another special token.
    """
    _check_literals(special_tokens)
    return tokens_of_ranks(ranks, special_tokens, pattern)


def tokens_of_ranks(
    ranks: Mapping[bytes, int] | NativeVocabulary, special_tokens: Mapping[str, int], pattern: str
) -> Vocabulary:
    """Do as `from_ranks` does, but let one special token begin another."""
    if isinstance(ranks, Mapping):
        native = ENGINE.read_ranks(ranks, _MAX_RANK, _MAX_TOKEN_BYTES)
        if native is None:
            return _from_ranks(ranks, special_tokens, pattern)
        ranks = native
    check_special_tokens(special_tokens, ranks.token)
    check_id_range(special_tokens.values())
    return Vocabulary((), special_tokens, pattern, native=ranks)


def _from_ranks(
    ranks: Mapping[bytes, int], special_tokens: Mapping[str, int], pattern: str
) -> Vocabulary:
    tokens = {rank: token for token, rank in sorted(ranks.items(), key=itemgetter(1))}
    if len(tokens) < len(ranks):
        twice = next(rank for token, rank in ranks.items() if tokens[rank] != token)
        raise ValueError(f"two tokens have the rank {twice}")
    if tokens and max(tokens) > _MAX_RANK:
        raise ValueError(f"the rank {max(tokens)} is above the highest allowed, {_MAX_RANK}")
    for rank, token in tokens.items():
        if len(token) > _MAX_TOKEN_BYTES:
            raise ValueError(f"the token of rank {rank} has more than {_MAX_TOKEN_BYTES} bytes")
    for byte in range(BYTE_COUNT):
        if bytes([byte]) not in ranks:
            raise ValueError(f"the single byte 0x{byte:02x} has no rank")
    with_bytes = {rank: token for rank, token in tokens.items() if token}
    merges = find_merges(with_bytes)
    every_token_is_merged = BYTE_COUNT + len(merges) == len(with_bytes)
    return Vocabulary.from_tokens(
        tokens, merges, special_tokens, pattern, ignore_merges=not every_token_is_merged
    )


def _check_literals(special_tokens: Mapping[str, int]) -> None:
    for shorter, longer in pairwise(sorted(special_tokens)):
        if longer.startswith(shorter):
            raise ValueError(
                f"the special token {shorter!r} begins {longer!r}, and tiktoken may find either of "
                f"the two in a text; leave one out, or use another format"
            )


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the .tiktoken file of a vocabulary, without its pattern and special tokens.

    Raises ValueError if tiktoken cannot hold it; `check_merges` compares the merges.
    """
    check_no_fallback("tiktoken", vocabulary)
    if vocabulary.normalizer or vocabulary.stages != NO_STAGES:
        refuse_vocabulary("tiktoken", "a normalizer, or other stages of a tokenizer.json")
    if vocabulary.more_patterns:
        refuse_vocabulary("tiktoken", "more than one pattern")
    check_shared(vocabulary.pattern)
    tokens = vocabulary.ordinary_tokens
    ids = {token: id for id, token in tokens.items()}
    if len(ids) < len(tokens):
        twice = next(id for id, token in tokens.items() if ids[token] != id)
        raise ValueError(
            f"tiktoken cannot hold this vocabulary: ids {twice} and {ids[tokens[twice]]} have "
            f"the same bytes"
        )
    if any(vocabulary.unused_tokens.values()):
        refuse_vocabulary("tiktoken", "tokens with the bytes of others")
    all_tokens = sorted({**tokens, **vocabulary.unused_tokens}.items())
    lines = (b"%s %d\n" % (base64.b64encode(token) or _NO_BYTES, id) for id, token in all_tokens)
    return b"".join(lines)


def check_merges(vocabulary: Vocabulary, read_back: Vocabulary) -> None:
    """Raise ValueError if the vocabulary that reads back from `to_bytes` gives other ids.

    The vocabulary may have merges of pairs that never meet, which tiktoken never uses. If merges
    make every token of `read_back`, `ignore_merges` changes nothing.
    """
    used = set(read_back.merges)
    merges = tuple(pair for pair in vocabulary.merges if pair in used)
    if merges != read_back.merges or (read_back.ignore_merges and not vocabulary.ignore_merges):
        raise ValueError(
            "tiktoken would give other ids: it merges by id, but the merges of this vocabulary "
            "are in another order, or make some token from other parts"
        )


def reference_encode(vocabulary: Vocabulary, encoding: Any = None) -> Encode:
    """Return how tiktoken encodes a text, by its Encoding of the vocabulary.

    Raises ImportError if no Encoding is given, and tiktoken is not installed.
    """
    if encoding is None:
        tokens = vocabulary.ordinary_tokens
        return _encode_by(vocabulary, {token: id for id, token in tokens.items()})
    return partial(encoding.encode, allowed_special="all")


def encode_like(vocabulary: Vocabulary, ids: Sequence[int]) -> Encode:
    """Return how tiktoken encodes a text of these ids, from the ranks that it needs.

    tiktoken looks only for substrings of the text. If it took all ranks, that would be most of the
    time of `Tokenizer.load`.
    """
    tokens = vocabulary.transient().ordinary_tokens
    literals = {id: literal.encode() for literal, id in vocabulary.special_tokens.items()}
    is_in_text = finder(b"".join(literals.get(id) or tokens[id] for id in ids))
    ranks = {token: id for id, token in tokens.items() if len(token) == 1 or is_in_text(token)}
    return _encode_by(vocabulary, ranks)


def _encode_by(vocabulary: Vocabulary, ranks: dict[bytes, int]) -> Encode:
    import tiktoken

    encoding = tiktoken.Encoding(
        "bpetite",
        pat_str=vocabulary.pattern,
        mergeable_ranks=ranks,
        special_tokens=dict(vocabulary.special_tokens),
    )
    return partial(encoding.encode, allowed_special="all")
