"""GPT-2's vocab.json and merges.txt (openai/gpt-2, src/encoder.py)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from pathlib import Path

from bpetite._pretokenizer import GPT2_PATTERN, pattern_of
from bpetite._unicode.byte_characters import to_characters
from bpetite._vocabulary import BYTE_COUNT, NO_STAGES, Vocabulary
from bpetite.formats._files import SourceFile, file_in_folder, shown
from bpetite.formats._format import (
    Format,
    Source,
    check_no_fallback,
    check_round_trip,
    refuse_vocabulary,
)
from bpetite.formats._model_folder import GPT2_CLASSES, in_folder
from bpetite.formats._portable_regex import to_portable
from bpetite.formats._reference import Encode, Reference

# The name of each vocabulary file, and of its merges file. GPT-2 itself has the second pair.
_FILE_NAMES = {"vocab.json": "merges.txt", "encoder.json": "vocab.bpe"}

_refuse = partial(refuse_vocabulary, "GPT-2's files")

_BYTE_CHARACTERS = frozenset(to_characters(bytes(range(BYTE_COUNT))))


class Gpt2(Format):
    """Two files without a pattern, in which special tokens look like ordinary ones."""

    name = "gpt2"
    file_name = "vocab.json"
    folder_files = ("vocab.json",)
    has_pattern = False

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether most single bytes have an id."""
        document = file.document
        ids = [document[character] for character in _BYTE_CHARACTERS & document.keys()]
        return sum(type(id) is int for id in ids) > BYTE_COUNT // 2

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether most of many keys have an id."""
        ids = sum(type(value) is int for value in file.document.values())
        return ids > len(file.document) // 2 > 50

    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        """Return the vocabulary of a vocab.json and the merges.txt next to it.

        The default pattern is GPT-2's. The default special tokens are the entries of vocab.json
        that no merge makes or uses, unless they are spelled in characters of bytes beyond ASCII.
        """
        file, folder, pattern = source.file, source.folder, source.pattern
        if pattern is not None:
            pattern = to_portable(pattern_of(pattern))
        merges = file_in_folder(Path(merges_path(file.path)))
        vocabulary = read_pair(file, merges, pattern, source.special_tokens)
        if folder is not None:
            _check_folder(folder, is_pattern_given=pattern is not None)
            vocabulary = in_folder(folder, vocabulary)
        file.check_unchanged()
        if vocabulary.stages != NO_STAGES:
            return vocabulary, None  # tokenizers alone does not read the folder
        return vocabulary, Reference("tokenizers", lambda: reference_encode(file, vocabulary))

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:
        data, merges_data = to_files(vocabulary)
        file, merges = SourceFile(path, data), SourceFile(merges_path(path), merges_data)
        read_back = read_pair(file, merges)
        check_round_trip(vocabulary, read_back, path)
        return {path: data, merges.path: merges_data}


def _check_folder(folder: Path, is_pattern_given: bool) -> None:
    """Refuse a folder in which other files contradict GPT-2's two."""
    if (folder / "added_tokens.json").exists():
        raise ValueError(
            f"{folder}: added_tokens.json has tokens that vocab.json lacks; save the tokenizer as "
            f"tokenizer.json with Hugging Face's libraries, which holds them all"
        )
    config = folder / "tokenizer_config.json"
    if config.exists() and not is_pattern_given:
        file = file_in_folder(config)
        kind = file.document.get("tokenizer_class")
        if kind not in GPT2_CLASSES:
            wanted = "the class of GPT-2, or a given pattern, since these files lack one"
            file.refuse("tokenizer_class", kind, wanted)


def read_pair(
    file: SourceFile,
    merges_file: SourceFile,
    pattern: str | None = None,
    special_tokens: Mapping[str, int] | None = None,
) -> Vocabulary:
    """Return the vocabulary of a vocab.json and its merges, with defaults as in `Gpt2.read`."""
    document = file.document
    file.check_ids(document)
    pairs = _pairs(merges_file, document)
    merged = _merged(pairs)
    if special_tokens is None:
        special_tokens = {
            text: id for text, id in document.items() if text not in merged and _is_literal(text)
        }
    for text, id in special_tokens.items():
        if document.get(text, id) != id:
            file.refuse(f"[{shown(text)}]", document[text], f"{id}, the id given for this literal")
    tokens = {
        id: file.token_bytes(text)
        for text, id in document.items()
        if text in merged or text not in special_tokens
    }
    merges = [(document[left], document[right]) for left, right in pairs]
    with file.path_in_errors():
        return Vocabulary.from_tokens(tokens, merges, special_tokens, pattern or GPT2_PATTERN)


def _pairs(file: SourceFile, vocab: Mapping[str, int]) -> dict[tuple[str, str], None]:
    """Return the pairs of merges.txt, as text; its first line may be a version."""
    pairs: dict[tuple[str, str], None] = {}
    for number, line in enumerate(file.text().split("\n"), 1):
        line = line.removesuffix("\r")
        if not line or (number == 1 and line.startswith("#version")):
            continue
        left, _, right = line.partition(" ")
        if left not in vocab or right not in vocab or left + right not in vocab:
            file.refuse(f"line {number}", line, "two tokens whose join vocab.json has")
        if (left, right) in pairs:
            file.refuse(f"line {number}", line, "a pair that no line above has")
        pairs[left, right] = None
    made = {left + right for left, right in pairs}
    for part in chain.from_iterable(pairs):
        if part[1:] == "</w>" and part not in made:
            file.refuse("the file", part, "parts made of bytes; CLIP's end words with </w>")
    return pairs


def _merged(pairs: Iterable[tuple[str, str]]) -> frozenset[str]:
    """Return the tokens that are bytes, or that a merge makes or uses."""
    return _BYTE_CHARACTERS.union(chain.from_iterable((*pair, "".join(pair)) for pair in pairs))


def _is_literal(text: str) -> bool:
    """Return whether a token outside all merges is a literal, and not the characters of bytes.

    >>> [_is_literal(text) for text in ("<s>", "中", "Ġt")]
    [True, True, False]
    """
    return text.isascii() or not _BYTE_CHARACTERS.issuperset(text)


def merges_path(vocab_path: str) -> str:
    """Return the path of the merges that belong to a vocab.json.

    >>> merges_path("gpt2/vocab.json"), merges_path("encoder.json")
    ('gpt2/merges.txt', 'vocab.bpe')

    Raises ValueError for any other name.
    """
    for end, merges_end in _FILE_NAMES.items():
        if vocab_path.endswith(end):
            return vocab_path.removesuffix(end) + merges_end
    raise ValueError(
        f"{vocab_path}: expected a name that ends in vocab.json; merges.txt goes next to it"
    )


def to_files(vocabulary: Vocabulary) -> tuple[bytes, bytes]:
    """Return vocab.json and merges.txt. Raises ValueError if they cannot hold the vocabulary."""
    check_no_fallback("GPT-2's files", vocabulary)
    if vocabulary.patterns != (GPT2_PATTERN,):
        _refuse("a pattern other than GPT-2's")
    if vocabulary.normalizer or vocabulary.stages != NO_STAGES:
        _refuse("a normalizer, or other stages of a tokenizer.json")
    if vocabulary.ignore_merges:
        _refuse("ignore_merges")
    if vocabulary.prefix_ids or vocabulary.suffix_ids:
        _refuse("ids that add_special_tokens puts around a text")
    if vocabulary.kept_special_tokens or vocabulary.added_tokens:
        _refuse("special tokens that skip_special_tokens keeps")
    texts = {id: to_characters(token) for id, token in vocabulary.ordinary_tokens.items()}
    pairs = [(texts[left], texts[right]) for left, right in vocabulary.merges]
    merged = _merged(pairs)
    for id, text in texts.items():
        if text not in merged and _is_literal(text):
            _refuse(f"the token {id}, which no merge makes: it would read as a special token")
    for literal, id in vocabulary.special_tokens.items():
        if literal in merged or not _is_literal(literal):
            _refuse(f"the special token {literal!r}, which would read as an ordinary token")
        texts[id] = literal
    if len(texts) < len(vocabulary.ordinary_tokens) + len(vocabulary.special_tokens):
        _refuse("a special token with the id of an ordinary token")
    if len(set(texts.values())) < len(texts):
        _refuse("two ids with the same bytes")
    vocab = {texts[id]: id for id in sorted(texts)}
    lines = ["#version: 0.2", *map(" ".join, pairs), ""]
    return json.dumps(vocab).encode(), "\n".join(lines).encode()


def reference_encode(file: SourceFile, vocabulary: Vocabulary) -> Encode:
    """Return how tokenizers encodes a text after it has read the two files itself.

    Raises ImportError if it is not installed, and ValueError if the files were replaced meanwhile.
    """
    import tokenizers
    from tokenizers import models, pre_tokenizers

    vocab, merges = models.BPE.read_file(file.path, merges_path(file.path))
    file.check_unchanged()
    # Special tokens outside the file would get ids that tokenizers chooses.
    tokenizer = tokenizers.Tokenizer(models.BPE({**vocab, **vocabulary.special_tokens}, merges))
    split = pre_tokenizers.Split(tokenizers.Regex(vocabulary.pattern), "isolated")
    to_characters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, to_characters])
    tokenizer.add_special_tokens(
        [tokenizers.AddedToken(literal, normalized=False) for literal in vocabulary.special_tokens]
    )
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
