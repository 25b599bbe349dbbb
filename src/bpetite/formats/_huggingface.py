"""Hugging Face's tokenizer.json, alone or in a model folder."""

from __future__ import annotations

import os

from bpetite._vocabulary import Vocabulary
from bpetite.formats._files import SourceFile
from bpetite.formats._format import Format, Source, check_round_trip
from bpetite.formats._huggingface_read import MATCH_ALL, PRE_TOKENIZERS, read
from bpetite.formats._huggingface_write import to_bytes
from bpetite.formats._model_folder import in_folder, settings_files
from bpetite.formats._portable_regex import to_portable
from bpetite.formats._reference import Encode, Reference


class HuggingFace(Format):
    """A tokenizer.json, which describes each stage of its own library."""

    name = "huggingface"
    file_name = "tokenizer.json"
    folder_file = "tokenizer.json"
    writes_folders = True

    def is_certain(self, file: SourceFile) -> bool:
        """Return whether the file has a model with a vocab."""
        return self.is_likely(file) and "vocab" in file.document["model"]

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether the file has a model."""
        return isinstance(file.document.get("model"), dict)

    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        vocabulary = read(source.file)
        if source.folder is not None:
            configured = in_folder(source.folder, vocabulary)
            source.file.check_unchanged()
            if configured.stages != vocabulary.stages:
                return configured, None  # tokenizers alone does not read the folder
            vocabulary = configured
        text = source.file.text()
        return vocabulary, Reference("tokenizers", lambda: reference_encode(text))

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


def reference_encode(tokenizer_json: str) -> Encode:
    """Return how tokenizers encodes a text. Raises ImportError if it is not installed."""
    import tokenizers

    tokenizer = tokenizers.Tokenizer.from_str(tokenizer_json)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids
