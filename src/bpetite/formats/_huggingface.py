"""Hugging Face's tokenizer.json, alone or in a model folder."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from typing import Any

from bpetite._pretokenizer import MATCH_ALL
from bpetite._vocabulary import Vocabulary
from bpetite.formats._files import SourceFile
from bpetite.formats._format import Format, Source, check_round_trip
from bpetite.formats._huggingface_read import LAST_CALL, PRE_TOKENIZERS, read
from bpetite.formats._huggingface_write import to_bytes
from bpetite.formats._model_folder import in_folder, settings_files
from bpetite.formats._portable_regex import to_portable
from bpetite.formats._reference import Encode, Reference, finder


class HuggingFace(Format):
    """A tokenizer.json, which describes each stage of its own library."""

    name = "huggingface"
    file_name = "tokenizer.json"
    folder_files = ("tokenizer.json",)
    writes_folders = True

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether the file has a model with a vocab."""
        return self.is_likely(file) and "vocab" in file.document["model"]

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether the file has a model."""
        return isinstance(file.document.get("model"), dict)

    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        file = source.file
        vocabulary = read(file)
        if any(map(file.document.get, LAST_CALL)):
            warnings.warn(
                f"{file.path}: truncation and padding, which transformers stores of its last "
                f"call, do not apply here: texts stay whole",
                stacklevel=4,  # the caller of Tokenizer.load
            )
        if source.folder is not None:
            configured = in_folder(source.folder, vocabulary)
            file.check_unchanged()
            if configured.stages != vocabulary.stages:
                return configured, None  # tokenizers alone does not read the folder
            vocabulary = configured
        return vocabulary, Reference(
            "tokenizers",
            lambda: reference_encode(file.text()),
            make_encode_like=lambda ids: _encode_like(file, ids),
        )

    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:
        is_folder = os.path.isdir(path) or not path.endswith(".json")
        name = os.path.join(path, "tokenizer.json") if is_folder else path
        file = SourceFile(name, to_bytes(vocabulary))
        read_back = read(file)
        check_round_trip(vocabulary, read_back, file.path)
        if _portable_patterns(vocabulary) != _portable_patterns(read_back):
            raise ValueError(
                f"{file.path}: patterns would not survive a round trip through this format"
            )
        files = {file.path: file.data}
        return files | settings_files(path, vocabulary) if is_folder else files


def _portable_patterns(vocabulary: Vocabulary) -> list[str]:
    """Return the patterns as `read` spells them, without one that splits nothing."""
    patterns = (pattern for pattern in vocabulary.patterns if pattern != MATCH_ALL)
    named = PRE_TOKENIZERS.values()
    return [pattern if pattern in named else to_portable(pattern) for pattern in patterns]


def reference_of(vocabulary: Vocabulary) -> Reference:
    """Return tokenizers as the reference of any vocabulary.

    Raises ValueError if a tokenizer.json cannot hold it.
    """
    (data, *_) = HuggingFace().files(vocabulary, "tokenizer.json").values()
    return Reference("tokenizers", lambda: reference_encode(data.decode()))


def reference_encode(
    tokenizer_json: str, *, framed: bool = False, ordinary: bool = False
) -> Encode:
    """Return how tokenizers encodes a text, by default without special tokens around it.

    In `ordinary` text, no special token counts. Raises ImportError if it is not installed.
    """
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = ordinary
    return lambda text: tokenizer.encode(text, add_special_tokens=framed).ids


def _encode_like(file: SourceFile, ids: Sequence[int]) -> Encode:
    """Return how tokenizers encodes a text of these ids, from as much of a file as that needs.

    If tokenizers read the whole file, that would take most of the time of `Tokenizer.load`.
    """
    model = file.document["model"]
    if any(model.get(f) for f in ("continuing_subword_prefix", "end_of_word_suffix", "unk_token")):
        return reference_encode(file.text())
    document, id_of = _reduced(file.document, ids)
    encode = reference_encode(json.dumps(document))
    return lambda text: [id_of[number] for number in encode(text)]


def _reduced(document: dict[str, Any], ids: Sequence[int]) -> tuple[dict[str, Any], list[int]]:
    """Return a smaller tokenizer.json with new ids, and the old id of each new one.

    It keeps the tokens of one byte and the tokens that a text of `ids` contains, because a merge
    makes a token only where the text has its characters. If tokenizers reads the text differently,
    its ids differ from `ids` with the smaller file as well as with the whole one.
    """
    model, added = document["model"], document.get("added_tokens", [])
    vocab: dict[str, int] = model["vocab"]
    literals = [token["content"] for token in added]
    all_ids = vocab | {token["content"]: token["id"] for token in added}
    used = {*ids}
    token_of = {id: token for token, id in all_ids.items() if id in used}
    is_in_text = finder("".join(token_of.get(id, "") for id in ids))
    kept = [each for each in vocab if len(each) == 1 or is_in_text(each)]
    # tokenizers gives the literals outside the vocab the next ids.
    literals.sort(key=lambda literal: literal not in vocab)
    new_ids = {token: id for id, token in enumerate(dict.fromkeys((*kept, *literals)))}
    merges = [
        merge
        for merge in model["merges"]
        if (merge.replace(" ", "", 1) if type(merge) is str else "".join(merge)) in new_ids
    ]
    new_vocab = {token: id for token, id in new_ids.items() if token in vocab}
    reduced = {
        **document,
        "added_tokens": [{**token, "id": new_ids[token["content"]]} for token in added],
        "post_processor": None,  # it names ids, and only adds special tokens
        "model": {**model, "vocab": new_vocab, "merges": merges},
    }
    return reduced, [all_ids[token] for token in new_ids]
