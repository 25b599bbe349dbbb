"""Vocabulary to file and back; nothing in a file is believed, and no file is ever half written.

The format, field by field, is in docs/vocabulary-file.md.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
import stat
from collections import Counter
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bpetite._pretokenizer import GPT2_PATTERN
from bpetite._vocabulary import BYTE_COUNT, Pair, Vocabulary

SCHEMA_VERSION = 1

_KEYS = (
    "schema_version",
    "mergeable_vocab_size",
    "pretokenizer_pattern",
    "vocab",
    "merges",
    "special_tokens",
)

# A vocabulary of a million tokens takes some 40 MB; what is larger is no vocabulary.
_MAX_SIZE = 256 * 1024 * 1024


def to_bytes(vocabulary: Vocabulary) -> bytes:
    """Return the file of a vocabulary: equal vocabularies give equal bytes."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "mergeable_vocab_size": BYTE_COUNT + len(vocabulary.merges),
        "pretokenizer_pattern": vocabulary.pattern,
        "vocab": {str(id): list(token) for id, token in vocabulary.tokens.bytes_of.items()},
        "merges": vocabulary.merges,
        "special_tokens": dict(vocabulary.special_tokens),
    }
    text = json.dumps(document, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8") + b"\n"


def write_vocabulary(
    vocabulary: Vocabulary, path: str | os.PathLike[str], overwrite: bool = False
) -> None:
    """Write the file of a vocabulary; it appears whole or not at all.

    Raises FileExistsError if `path` exists, unless `overwrite`; other OSErrors as they come.
    """
    # What a symbolic link points to is written, as `open` would; the link stays.
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".bpetite-{secrets.token_hex(8)}.tmp")
    data = to_bytes(vocabulary)
    if len(data) > _MAX_SIZE:
        raise ValueError(f"the vocabulary takes {len(data)} bytes, more than load would read")
    try:
        if target.exists():
            if not overwrite:
                raise FileExistsError(errno.EEXIST, "exists; overwriting it was not asked for")
            if not target.is_file():
                code = errno.EISDIR if target.is_dir() else errno.EINVAL
                raise OSError(code, "exists, and is not a file that can be replaced")
        _write_file(temporary, data)
        if overwrite:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(temporary, stat.S_IMODE(target.stat().st_mode))
            os.replace(temporary, target)
        else:
            _rename_if_free(temporary, target)
    except OSError as error:
        # The name that people know is theirs, not that of the temporary file.
        raise OSError(error.errno, error.strerror, os.fspath(path)) from None
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def _write_file(name: Path, data: bytes) -> None:
    """Make a new file that is whole and on disk.

    On Linux it has no name until then: whatever ends the process, nothing is left behind.
    """
    descriptor = _open_nameless(name.parent)
    if descriptor is not None:
        with open(descriptor, "wb") as file:
            _write_to_disk(file, data)
            with contextlib.suppress(OSError, AttributeError):
                # A src_dir_fd, unused here, makes os.link follow the link in /proc.
                os.link(f"/proc/self/fd/{descriptor}", name, src_dir_fd=descriptor)
                return
    with open(name, "xb") as file:
        _write_to_disk(file, data)


def _open_nameless(folder: Path) -> int | None:
    """Open a new file without a name in `folder`; None where the system has no such thing."""
    if hasattr(os, "O_TMPFILE"):
        # Not every file system can; whatever else is wrong, a named file will meet again.
        with contextlib.suppress(OSError):
            return os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666)
    return None


def _write_to_disk(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.flush()
    os.fsync(file.fileno())


def _rename_if_free(temporary: Path, target: Path) -> None:
    """Give a file the name `target`. Raises FileExistsError if that is taken, since when ever."""
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise
    except (OSError, AttributeError):
        # No links on this system: take the name first, unless it is taken, and then fill it.
        target.touch(exist_ok=False)
        try:
            os.replace(temporary, target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise


def _sync_folder(folder: Path) -> None:
    """Write the folder's entry to disk too, where a folder can be opened for that."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_vocabulary(path: str | os.PathLike[str]) -> Vocabulary:
    """Return the vocabulary of a file, every value of which is checked.

    Raises KeyError for a missing key, ValueError for anything else that is wrong, both naming the
    file and the place in it; OSError as it comes.
    """
    return _Reader(os.fspath(path)).read()


class _Reader:
    """Checks a file from the outside in; its errors name the file, the place and the value."""

    def __init__(self, path: str) -> None:
        self._path = path

    def read(self) -> Vocabulary:
        document = self._parse()
        self._check_keys(document)
        merges = self._merges(document["merges"])
        size = document["mergeable_vocab_size"]
        if not _is_int(size) or size != BYTE_COUNT + len(merges):
            self._refuse(
                "mergeable_vocab_size", size, f"256 + {len(merges)} merges = {256 + len(merges)}"
            )
        pattern = document["pretokenizer_pattern"]
        if pattern != GPT2_PATTERN:
            self._refuse("pretokenizer_pattern", pattern, f"GPT-2's pattern, {GPT2_PATTERN!r}")
        special_tokens = self._special_tokens(document["special_tokens"], len(merges))
        self._check_vocab(document["vocab"], merges, special_tokens)
        return Vocabulary(merges, special_tokens, pattern)

    def _parse(self) -> dict[str, Any]:
        data = self._read()
        try:
            document = json.loads(
                data.decode("utf-8"), object_pairs_hook=_object, parse_constant=_refuse_constant
            )
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self._path}: not UTF-8 at byte {error.start} ({error.reason})"
            ) from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{self._path}: not JSON: {error}") from None
        except ValueError as error:
            raise ValueError(f"{self._path}: {error}") from None
        except RecursionError:
            raise ValueError(f"{self._path}: nested too deeply") from None
        if not isinstance(document, dict):
            self._refuse("the file", document, "a JSON object")
        return document

    def _read(self) -> bytes:
        chunks, size = [], 0
        with open(self._path, "rb") as file:
            while chunk := file.read(1 << 20):
                chunks.append(chunk)
                size += len(chunk)
                if size > _MAX_SIZE:
                    raise ValueError(
                        f"{self._path}: larger than {_MAX_SIZE} bytes, so no vocabulary file"
                    )
        return b"".join(chunks)

    def _check_keys(self, document: dict[str, Any]) -> None:
        # The version comes first: of a file of another version, nothing else is known.
        version = document.get("schema_version", SCHEMA_VERSION)
        if not _is_int(version) or version != SCHEMA_VERSION:
            self._refuse("schema_version", version, str(SCHEMA_VERSION))
        for key in _KEYS:
            if key not in document:
                raise KeyError(f"{self._path}: the key {key!r} is missing")
        for key in document:
            if key not in _KEYS:
                self._refuse("the file", key, f"no other keys than {', '.join(_KEYS)}")

    def _merges(self, merges: object) -> tuple[Pair, ...]:
        if not isinstance(merges, list):
            self._refuse("merges", merges, "a list")
        ranks: dict[Pair, int] = {}
        for rank, pair in enumerate(merges):
            if not isinstance(pair, list) or len(pair) != 2:
                self._refuse(f"merges[{rank}]", pair, "a list of two ids")
            for side, id in enumerate(pair):
                if not _is_int(id) or not 0 <= id < BYTE_COUNT + rank:
                    self._refuse(
                        f"merges[{rank}][{side}]", id, f"an id from 0 to {BYTE_COUNT + rank - 1}"
                    )
            if (first := ranks.setdefault((pair[0], pair[1]), rank)) != rank:
                self._refuse(f"merges[{rank}]", pair, f"a new pair; this is merges[{first}] too")
        return tuple(ranks)

    def _special_tokens(self, special_tokens: object, merge_count: int) -> dict[str, int]:
        if not isinstance(special_tokens, dict):
            self._refuse("special_tokens", special_tokens, "an object")
        literal_of: dict[int, str] = {}
        first = BYTE_COUNT + merge_count
        end = first + len(special_tokens)
        for literal, id in special_tokens.items():
            place = f"special_tokens[{_shown(literal)}]"
            if not literal or not _is_encodable(literal):
                self._refuse("special_tokens", literal, "a literal that is not empty, in Unicode")
            if not _is_int(id) or not first <= id < end:
                self._refuse(place, id, f"an id from {first} to {end - 1}")
            if id in literal_of:
                self._refuse(place, id, f"an id of its own; {_shown(literal_of[id])} has it too")
            literal_of[id] = literal
        return {literal_of[id]: id for id in sorted(literal_of)}

    def _check_vocab(
        self, vocab: object, merges: tuple[Pair, ...], special_tokens: dict[str, int]
    ) -> None:
        """Compare what the file says of each id's bytes with what follows from the rest of it.

        Token by token, so that merges which double and double can ask for no more memory than
        the file itself takes.
        """
        if not isinstance(vocab, dict):
            self._refuse("vocab", vocab, "an object")
        tokens = [self._checked_token(vocab, byte, bytes([byte])) for byte in range(BYTE_COUNT)]
        for id, (left, right) in enumerate(merges, BYTE_COUNT):
            tokens.append(self._checked_token(vocab, id, tokens[left] + tokens[right]))
        for literal, id in special_tokens.items():
            self._checked_token(vocab, id, literal.encode("utf-8"))
        known = {str(id) for id in range(len(tokens) + len(special_tokens))}
        for key in vocab:
            if key not in known:
                self._refuse("vocab", key, f"no other keys than the ids 0 to {len(known) - 1}")

    def _checked_token(self, vocab: dict[str, Any], id: int, token: bytes) -> bytes:
        if str(id) not in vocab:
            raise ValueError(f'{self._path}: vocab: the id "{id}" is missing')
        given = vocab[str(id)]
        if not isinstance(given, list) or not all(map(_is_byte, given)):
            self._refuse(f'vocab["{id}"]', given, "a list of integers from 0 to 255")
        if bytes(given) != token:
            wanted = _shown(list(token))
            self._refuse(f'vocab["{id}"]', given, f"the bytes of this id, {wanted}")
        return token

    def _refuse(self, place: str, value: object, wanted: str) -> NoReturn:
        raise ValueError(f"{self._path}: {place}: expected {wanted}, got {_shown(value)}")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key {_shown(twice)} is given twice")
    return entries


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _shown(value: object) -> str:
    """Return a value of the file as JSON, shortened to what fits into a message."""
    try:
        shown = json.dumps(value)
    except RecursionError:
        return "something nested deeply"
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _is_int(value: object) -> bool:
    return type(value) is int  # a bool is none


def _is_byte(value: object) -> bool:
    return type(value) is int and 0 <= value < BYTE_COUNT


def _is_encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
