"""Comparison of a tokenizer's ids with another library or model: the first difference, and why."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from random import Random
from typing import Any
from unicodedata import ucd_3_2_0

from bpetite import Tokenizer
from bpetite._tokenizer import vocabulary_of
from bpetite._unicode import stand_in
from bpetite._unicode.data import VERSION
from bpetite.formats import recognise
from bpetite.formats._files import SourceFile
from bpetite.formats._huggingface import reference_encode
from bpetite.formats._huggingface import reference_of as tokenizers_of
from bpetite.formats._reference import PROBE, Encode, IncomparableError, Reference, first_difference
from bpetite.formats._registry import read
from bpetite.formats._tiktoken import reference_of as tiktoken_of
from bpetite.formats._tiktoken_names import encoding_of, from_name

LIBRARIES = ("tokenizers", "transformers", "tiktoken", "mistral-common")

_STAGES = ("pre_tokenizer", "normalizer", "added_tokens", "model")
_FRAME = ("post_processor",)

_MAX_FRAME = 8
_MAX_CUTS = 200  # the most cuts to shorten a text. About twenty are usual, since each halves it.
_TOKENS_A_TEXT = 40
_MAX_TOKENS = 20_000
_MAX_LITERALS = 300
_CHARACTERS_A_TEXT = 60
_CODE_POINT_STEP = 37
_SPACES = (" ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "\u2028", "\x85", "")
_WORDS = ("a", "The", "été", "1", "12345", "...", "你好", "'s", "_x")


class Verifier:
    """Compares the ids of a tokenizer with those of another library, or of another model.

    `model` is the file or the folder that the tokenizer came from, or a name that tiktoken knows.
    `against` is tokenizers, transformers, tiktoken, mistral-common, or another `Tokenizer`. The
    default is the library that owns the model's format; no library owns ours, so no text has a
    difference. `reference_library` is the name of the library, or None.

    >>> from bpetite import Tokenizer
    >>> tokenizer = Tokenizer.train("ab ab ab", 258)
    >>> tokenizer.save("tokenizer.json")
    >>> verifier = Verifier(tokenizer, "tokenizer.json", against=Tokenizer.train("", 256))
    >>> verifier.difference("ab")
    "character 0 (line 1, column 1): bpetite has 256 'ab', the other model has 97 'a'"

    Raises ValueError for a file that is refused, for a library that does not read such a model, and
    for an unknown library.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        model: str | os.PathLike[str],
        format: str | None = None,
        *,
        against: str | Tokenizer | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._path = os.fsdecode(model)
        self.n_texts: int = 0
        """The texts compared so far."""
        self.n_ids: int = 0
        """The ids compared so far."""
        self._other: Other | None
        if isinstance(against, Tokenizer):
            self._other = _of_tokenizer(against)
        elif against in LIBRARIES or against is None:
            self._other = _of_library(tokenizer, self._path, format, against)
        else:
            raise ValueError(f"against must be one of {', '.join(LIBRARIES)}, got {against!r}")
        self.reference_library: str | None = self._other.name if self._other else None

    def difference(self, text: str) -> str | None:
        """Return where the ids of `text` first differ, how, and why if that is known; or None.

        Raises ImportError if the library is not installed, ValueError if it refuses the file or
        fails on the text.
        """
        other = self._other
        if other is None:
            return None
        ids, theirs = self._ids(text), self._theirs(other.encode, text)
        self.n_texts += 1
        self.n_ids += len(ids)
        if ids != theirs:
            token_bytes = self._tokenizer.token_bytes
            found = first_difference(
                text, ("bpetite", ids, token_bytes), (other.name, theirs, other.token_bytes)
            )
            return _joined(found or "", self._cause(text, other))
        return None

    def check(self, texts: Iterable[str] = ()) -> str | None:
        """Return the first difference in probe texts and in `texts`, in a short text; or None.

        The probe texts are tokens of the vocabulary, white space, every script and all literals.

        >>> from bpetite import Tokenizer
        >>> tokenizer = Tokenizer.train("ab ab ab", 258)
        >>> tokenizer.save("tokenizer.json")
        >>> Verifier(tokenizer, "tokenizer.json").check(["ab", "b a"]) is None
        True

        Raises what `difference` raises.
        """
        for each in (_probe_texts(self._tokenizer), texts):
            for text in each:
                if self.difference(text):
                    short = self._shrunk(text)
                    return f"in {short!r}, {self.difference(short)}"
                if found := self._ordinary_difference(text):
                    return f"in {text!r} without special tokens, {found}"
        return self._frame_difference()

    def _ordinary_difference(self, text: str) -> str | None:
        """Return where the ids of `text` differ if no special token counts in it, or None."""
        other = self._other
        if other is None or other.encode_ordinary is None:
            return None
        ids, theirs = (
            self._tokenizer.encode_ordinary(text),
            self._theirs(other.encode_ordinary, text),
        )
        token_bytes = self._tokenizer.token_bytes
        return first_difference(
            text, ("bpetite", ids, token_bytes), (other.name, theirs, other.token_bytes)
        )

    def _frame_difference(self) -> str | None:
        """Return how the special tokens around a text differ, and why if that is known; or None."""
        other = self._other
        if other is None or other.encode_framed is None:
            return None
        text = "a"
        ids = self._ids(text)
        framed = self._tokenizer.encode(text, add_special_tokens=True)
        theirs = self._theirs(other.encode_framed, text)
        if framed == theirs:
            return None
        here, there = _around(framed, ids), _around(theirs, ids)
        found = f"with special tokens, bpetite puts {here} around a text, {other.name} puts {there}"
        return _joined(found, self._config_cause() or other.replaced(_FRAME))

    def _config_cause(self) -> str | None:
        """Return that only the config of a model folder asks for tokens around a text, if so."""
        if not os.path.isdir(self._path):
            return None
        alone = Tokenizer.load(os.path.join(self._path, "tokenizer.json"))
        if alone.encode("a", add_special_tokens=True) == self._tokenizer.encode(
            "a", add_special_tokens=True
        ):
            return None
        return "tokenizer_config.json asks for them, but tokenizer.json does not"

    def _ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text)

    def _theirs(self, encode: Encode, text: str) -> list[int]:
        try:
            return encode(text)
        except IncomparableError as error:
            raise ValueError(f"{self._path}: {error}") from None

    def _differs(self, text: str) -> bool:
        return self._other is not None and self._ids(text) != self._theirs(self._other.encode, text)

    def _shrunk(self, text: str) -> str:
        """Return a short part of a text whose ids differ, if the ids without a frame do."""
        size = len(text) // 2 if self._differs(text) else 0
        for _ in range(_MAX_CUTS):
            if not size:
                break
            parts = (text[size:], text[: len(text) - size])
            shorter = next((part for part in parts if part and self._differs(part)), None)
            text, size = (text, size // 2) if shorter is None else (shorter, size)
            size = min(size, len(text) - 1)
        return text

    def _cause(self, text: str, other: Other) -> str | None:
        """Return why the ids of a text differ, if it is known."""
        text = self._shrunk(text)
        ids, theirs = self._ids(text), self._theirs(other.encode, text)
        if ids and (around := _around(theirs, ids)) != "nothing":
            return f"{other.name} puts {around} around a text by itself"
        for literal, id in self._tokenizer.special_tokens.items():
            if literal in text and other.id_of is not None and other.id_of(literal) != id:
                moved = other.id_of(literal)
                place = "is no token" if moved is None else f"has the id {moved}"
                return f"the added token {literal!r} has the id {id} in the file, and {place} there"
        if other.patterns is not None:
            is_equal = other.patterns == self._tokenizer.patterns
            return None if is_equal else f"{other.name} has another pattern"
        if replaced := other.replaced(_STAGES):
            return replaced
        # A recent character of Unicode, which some libraries do not know.
        newer = [each for each in text if ucd_3_2_0.category(each) == "Cn"]
        old = "".join(stand_in(each) if each in newer else each for each in text)
        if newer and not self._differs(old):
            shown = " and ".join(f"U+{ord(each):04X}" for each in dict.fromkeys(newer[:2]))
            return (
                f"{other.name} has another category for {shown} than Unicode {VERSION}, so it "
                f"follows another version of Unicode"
            )
        return None


def _joined(found: str, cause: str | None) -> str:
    return f"{found}; {cause}" if cause else found


def _around(framed: list[int], ids: list[int]) -> str:
    """Return what is around some ids, or nothing.

    >>> _around([1, 97, 98, 2], [97, 98]), _around([97], [97]), _around([5], [97])
    ('[1, ..., 2]', 'nothing', 'nothing')
    """
    size = len(ids)
    for start in range(min(len(framed) - size, _MAX_FRAME) + 1):
        if framed[start : start + size] == ids:
            parts = [*map(str, framed[:start]), "...", *map(str, framed[start + size :])]
            return f"[{', '.join(parts)}]" if len(parts) > 1 else "nothing"
    return "nothing"


# The other side


class Other:
    """The other side of a comparison."""

    encode_framed: Encode | None = None
    """How a text is encoded with special tokens around it, if that is compared too."""
    encode_ordinary: Encode | None = None
    """How a document is encoded, in which only added tokens that are not special count."""
    id_of: Callable[[str], int | None] | None = None
    patterns: tuple[str, ...] | None = None
    """The patterns of another model, which has the same Unicode."""

    def __init__(self, name: str, encode: Encode, token_bytes: Callable[[int], bytes]) -> None:
        self.name = name
        self.encode = encode
        self.token_bytes = token_bytes

    def replaced(self, stages: tuple[str, ...]) -> str | None:  # noqa: ARG002
        """Return in words which stages of the file this side replaces."""
        return None


def _of_tokenizer(other: Tokenizer) -> Other:
    found = Other("the other model", other.encode, other.token_bytes)
    found.encode_framed = lambda text: other.encode(text, add_special_tokens=True)
    found.encode_ordinary = other.encode_ordinary
    found.id_of = other.special_tokens.get
    found.patterns = other.patterns
    return found


def _of_library(
    tokenizer: Tokenizer, model: str, format: str | None, library: str | None
) -> Other | None:
    """Return a library; None for our own format, which no other library owns."""
    if library == "transformers":
        return _Transformers(model, tokenizer)
    with warnings.catch_warnings(action="ignore"):  # the tokenizer was made with them
        if not os.path.exists(model) and encoding_of(model):
            reference = from_name(model)[1]
        else:
            patterns, literals = tokenizer.patterns, tokenizer.special_tokens
            reference = read(model, format, patterns[0], literals, given=False)[1]
    if library is None and reference is None:
        return None
    if library is not None and (reference is None or reference.name != library):
        reference = _reference_of(tokenizer, model, library)
    assert reference is not None
    other = Other(reference.name, reference.encode, tokenizer.token_bytes)
    if (
        reference.name == "tokenizers"
        and os.path.isfile(model)
        and recognise(model) == "huggingface"
    ):
        framed = Reference("tokenizers", lambda: _encode_of_file(model, framed=True))
        ordinary = Reference("tokenizers", lambda: _encode_of_file(model, ordinary=True))
        other.encode_framed, other.encode_ordinary = framed.encode, ordinary.encode
    return other


def _encode_of_file(path: str, **how: bool) -> Encode:
    return reference_encode(SourceFile(path).text(), **how)


def _reference_of(tokenizer: Tokenizer, model: str, library: str) -> Reference:
    """Return a library that does not own the model's format, as a reference for its vocabulary."""
    vocabulary = vocabulary_of(tokenizer)
    if library == "mistral-common":
        raise ValueError(f"{model}: mistral-common reads no other vocabulary than a tekken.json")
    reference = tokenizers_of(vocabulary) if library == "tokenizers" else tiktoken_of(vocabulary)
    if reference is None:
        raise ValueError(
            f"{model}: {library} drops text that the pattern does not match, so its ids differ"
        )
    return reference


class _Transformers(Other):
    """What transformers makes of a model folder."""

    def __init__(self, model: str, tokenizer: Tokenizer) -> None:
        folder = model if os.path.isdir(model) else os.path.dirname(model) or "."
        if recognise(folder) != "huggingface":
            raise ValueError(f"{model}: transformers needs a folder with a tokenizer.json")
        self._file = os.path.join(folder, "tokenizer.json")
        self._folder = folder
        self._made: Any = None
        plain = Reference("transformers", lambda: self._encode_by(add_special_tokens=False))
        framed = Reference("transformers", lambda: self._encode_by(add_special_tokens=True))
        super().__init__("transformers", plain.encode, tokenizer.token_bytes)
        ordinary = Reference("transformers", self._encode_ordinary)
        self.encode_framed = framed.encode if os.path.isdir(model) else None
        self.encode_ordinary = ordinary.encode
        self.id_of = self._id_of

    @property
    def _library(self) -> Any:
        """The tokenizer that transformers makes of local files, without code of the folder."""
        if self._made is None:
            import transformers

            logging: Any = transformers.utils.logging
            verbosity = logging.get_verbosity()
            logging.set_verbosity_error()
            try:
                self._made = transformers.AutoTokenizer.from_pretrained(
                    self._folder, local_files_only=True, trust_remote_code=False
                )
            finally:
                logging.set_verbosity(verbosity)
        return self._made

    def _encode_by(self, *, add_special_tokens: bool) -> Encode:
        library = self._library
        return lambda text: [
            *library.encode(text, add_special_tokens=add_special_tokens, verbose=False)
        ]

    def _encode_ordinary(self) -> Encode:
        library = self._library
        options = {"add_special_tokens": False, "split_special_tokens": True, "verbose": False}
        return lambda text: [*library.encode(text, **options)]

    def _id_of(self, literal: str) -> int | None:
        found: int | None = self._library.get_vocab().get(literal)
        return found

    def replaced(self, stages: tuple[str, ...]) -> str | None:
        kind = type(self._library).__name__
        backend = getattr(self._library, "backend_tokenizer", None)
        if backend is None:
            return f"the class {kind} of transformers does not use tokenizer.json"
        import tokenizers

        theirs = json.loads(backend.to_str())
        given = json.loads(tokenizers.Tokenizer.from_file(self._file).to_str())
        for stage in stages:
            here, there = _in_words(given.get(stage)), _in_words(theirs.get(stage))
            if theirs.get(stage) != given.get(stage) and (here, there) != ("none", "none"):
                how = "" if here == there else f" ({here}) by its own ({there})"
                return f"the class {kind} of transformers replaces the file's {stage}{how}"
        return None


def _in_words(stage: object) -> str:
    """Return the kind of a stage of a tokenizer.json.

    >>> _in_words({"type": "Sequence", "pretokenizers": [{"type": "Split"}, {"type": "Digits"}]})
    'Split, Digits'
    """
    if not isinstance(stage, dict):
        return "none" if stage is None else "a list"
    inner = next((value for value in stage.values() if isinstance(value, list)), None)
    if stage.get("type") == "Sequence" and inner is not None:
        return ", ".join(map(_in_words, inner)) or "none"
    return str(stage.get("type"))


# Probe texts


def _probe_texts(tokenizer: Tokenizer) -> Iterator[str]:
    """Yield texts of a few lines: tokens, white space, characters of every script, literals."""
    lot = Random(0)
    yield PROBE
    yield ""
    ids = tokenizer.ids
    some = [tokenizer.token_bytes(id) for id in ids[:: len(ids) // _MAX_TOKENS + 1]]
    for start in range(0, len(some), _TOKENS_A_TEXT):
        yield b"".join(some[start : start + _TOKENS_A_TEXT]).decode("utf-8", "ignore")
    for word in _WORDS:
        yield "".join(f"{word}{space}{lot.choice(_WORDS)}" for space in _SPACES)
        yield "".join(f"{space}{word}" for space in _SPACES) + lot.choice(_SPACES)
    codes = (code for code in range(0x80, 0x30000, _CODE_POINT_STEP) if code >> 11 != 0x1B)
    while some_codes := [*islice(codes, _CHARACTERS_A_TEXT)]:
        yield "".join(chr(code) + lot.choice(("", "", " ", "a", "1")) for code in some_codes)
    for literal in islice(tokenizer.special_tokens, _MAX_LITERALS):
        before, after = lot.choice(_SPACES), lot.choice(_SPACES)
        yield f"{literal}a{before}{literal}{after}b{literal}{literal}"
