"""The contract of a format: how its files are recognised, read and written."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar, NamedTuple, NoReturn

from bpetite._vocabulary import Vocabulary
from bpetite.formats._files import SourceFile
from bpetite.formats._reference import Reference


class Source(NamedTuple):
    """The main file of a vocabulary, and the arguments of `load`."""

    file: SourceFile
    folder: Path | None = None
    """The model folder, if the caller named a folder."""
    pattern: str | None = None
    special_tokens: Mapping[str, int] | None = None


class Format(ABC):
    """One file format. A new format is a subclass in a module, and an entry in the registry."""

    name: ClassVar[str]
    file_name: ClassVar[str]
    """A shell pattern: `save` chooses the format for a file with such a name."""
    folder_files: ClassVar[tuple[str, ...]] = ()
    """Shell patterns of the main file in a model folder, the first choice first."""
    writes_folders: ClassVar[bool] = False
    """Whether `save` chooses the format for a folder."""
    is_json: ClassVar[bool] = True
    has_pattern: ClassVar[bool] = True
    """Whether the files hold the pattern and the special tokens, so that `load` refuses both."""

    @abstractmethod
    def is_certain(self, file: SourceFile) -> bool:
        """Return whether a file has this format, by most of its content."""

    def is_likely(self, file: SourceFile) -> bool:
        """Return whether this format's error says most about a file that no format recognises."""
        return self.is_certain(file)

    @abstractmethod
    def read(self, source: Source) -> tuple[Vocabulary, Reference | None]:
        """Return the vocabulary, and the library to compare it with, if there is one.

        Raises ValueError for every fault, naming the file, the path of the value and the value;
        KeyError for a missing key of our own format.
        """

    @abstractmethod
    def files(self, vocabulary: Vocabulary, path: str) -> dict[str, bytes]:
        """Return the bytes of each file to write, after they have read back as this vocabulary.

        The main file comes first. If `path` is not among them, it is a folder to make.

        Raises ValueError if the format cannot hold the vocabulary.
        """


TOKEN_FIELDS = ("byte_ids", "absent_bytes", "ordinary_tokens", "unused_tokens", "special_tokens")
_FIELDS = (
    *TOKEN_FIELDS,
    *("merges", "merge_ids", "ignore_merges", "normalizer", "stages"),
    *("kept_special_tokens", "added_tokens", "prefix_ids", "suffix_ids"),
)


def check_round_trip(
    vocabulary: Vocabulary, read_back: Vocabulary, path: str, fields: Iterable[str] = _FIELDS
) -> None:
    """Raise ValueError if a field of the vocabulary differs after it was read back."""
    for field in fields:
        if getattr(vocabulary, field) != getattr(read_back, field):
            field = field.replace("_", " ")
            raise ValueError(f"{path}: {field} would not survive a round trip through this format")


def refuse_vocabulary(files: str, what: str) -> NoReturn:
    """Raise the ValueError for a vocabulary that has more than the files of a format can hold."""
    raise ValueError(f"{files} cannot hold this vocabulary: it has {what}")


def check_no_fallback(files: str, vocabulary: Vocabulary) -> None:
    """Raise ValueError for a vocabulary with byte fallback, which only our own format can hold."""
    if vocabulary.stages.byte_fallback:
        what = "byte fallback, which is read and not written; keep the file, or save our own"
        refuse_vocabulary(files, what)
