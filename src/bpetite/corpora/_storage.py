"""Files of this machine and of object stores: a path is local, or a URL that fsspec knows.

An object store has no folders, no renaming and no part of a file: an upload is there as a whole or
not at all. So new files are written on this machine and uploaded in order.
"""

from __future__ import annotations

import errno
import glob
import io
import os
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from bpetite.corpora._extra import MissingExtraError, import_extra
from bpetite.formats._files import check_found
from bpetite.formats._systems import reachable, repeated

# fsspec joins the URL of a file and of the archive or cache around it by `::`. A drive of Windows
# has one letter.
_URL = re.compile(r"(?:[a-z][a-z0-9+.-]+::)*[a-z][a-z0-9+.-]+://", re.IGNORECASE)

_READ_AHEAD_BYTES = 1 << 23
"""An object store takes as long to answer as it needs for some megabytes."""


def is_url(path: str | os.PathLike[str]) -> bool:
    """Return whether a path is a URL.

    >>> is_url("s3://bucket/a.jsonl"), is_url("C:/a.jsonl")
    (True, False)
    """
    return _URL.match(str(path)) is not None


# A password may have any character, also those that the URL should have escaped. A port is no
# password, and an address of IPv6 no user.
_PASSWORD = re.compile(r"/*(?!\[)[^/?#:]*:(?!\d+(?:/|$))")
_USER = re.compile(r"/*[^/?#]*@")
_PATHS = ("dir", "libarchive", "tar", "zip")  # their URLs name a file in another one
_JOINT = re.compile(rf"::(?={_URL.pattern})", re.IGNORECASE)  # other colons are a part's own
_REDIRECTS = re.compile(r"(https?|webhdfs)://", re.IGNORECASE)
_CONTAINER = re.compile(r"(abfss?|wasbs?|az|adl)://[^/:\s]*@", re.IGNORECASE)  # names no user


def public(path: str) -> str:
    """Return a path as files and messages have it: a URL without its user and its query.

    Both may be secrets: a password, or the signature of a presigned URL.

    >>> public("https://me:secret@host/a.jsonl?sig=secret"), public("a?.jsonl")
    ('https://host/a.jsonl', 'a?.jsonl')
    """
    if not is_url(path):
        return path
    return "::".join(map(_without_secrets, _JOINT.split(path)))


def _without_secrets(url: str) -> str:
    kind, mark, rest = url.partition("://")
    # A file of another store, or a pattern of files, may have a question mark in its name.
    is_query = r"[?#]" if kind.lower() in ("http", "https") else r"\?(?=[^/]*=)"
    user = 0
    if kind.lower() not in _PATHS and not _CONTAINER.match(url):
        if _PASSWORD.match(rest):
            before_query = re.split(is_query, rest, maxsplit=1)[0]
            user = before_query.rfind("@") + 1 or rest.rfind("@") + 1
        elif found := _USER.match(rest):
            user = found.end()
    return kind + mark + re.split(is_query, rest[user:], maxsplit=1)[0]


def _public_words(error: Exception, url: str) -> str:
    """Return the words of a library's error, in one line, unless they may have secrets of URLs."""
    if _may_show_secrets(url):
        status = getattr(error, "status", None)  # of HTTP
        return f"{status}" if isinstance(status, int) else ""
    return " ".join(str(error).split())


def _may_show_secrets(url: str) -> bool:
    """Return whether errors about a URL may have secrets of this URL or of another one.

    A library may split or change a URL before it shows it, and a server may redirect to a URL with
    a signature.
    """
    return public(url) != url or _REDIRECTS.search(url) is not None


def located_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder of token files. Raises ValueError for a URL with a user or a query.

    They would be in many messages, and a query has no folders.
    """
    url = os.fspath(folder) if isinstance(folder, str) else str(folder)
    if public(url) != url:
        raise ValueError(
            f"{public(url)}: the URL of a folder has a user, a password or a query; set them in "
            "the variables or files of the store's library instead, such as FSSPEC_FTP_PASSWORD"
        )
    return located(folder)


def located(path: str | os.PathLike[str]) -> Path:
    """Return a path of this machine, or for a URL, one with the same methods.

    Raises ValueError for a URL of an unknown kind, or if a library for it is missing.
    """
    if not is_url(path):
        return Path(reachable(os.fspath(path)))
    url = str(path)
    if url.startswith("file://"):
        return Path(reachable(_path_of(url)))
    upath = import_extra("upath", "a URL")
    try:
        # Other workers write to the same folder, so a listing is never kept.
        place: Any = upath.UPath(url, use_listings_cache=False)
        place.fs  # noqa: B018 - its library is imported here
    except ImportError as error:
        raise MissingExtraError(f"{public(url)}: {error}", name=error.name) from None
    except ValueError as error:
        raise ValueError(f"{public(url)}: {_public_words(error, url) or 'not a URL'}") from None
    except MemoryError:
        raise
    except Exception as error:
        raise _store_error(url, error) from _cause(url, error)
    return place  # type: ignore[no-any-return]


def _path_of(url: str) -> str:
    """Return the path of a `file://` URL. Raises ValueError for one of another machine."""
    from urllib.request import url2pathname  # with it come 4 MB of libraries

    try:
        parts = urlsplit(url)
    except ValueError:  # its words have the URL
        raise ValueError(f"{public(url)}: not a URL") from None
    path = url2pathname(parts.path)
    if parts.netloc in ("", "localhost"):
        return path
    if os.name == "nt":
        return f"\\\\{parts.netloc}{path}"
    raise ValueError(
        f"{public(url)}: names the machine {parts.hostname!r}; for a path of this machine, write "
        "file:///"
    )


def is_remote(place: Path) -> bool:
    """Return whether a located path is a URL."""
    return hasattr(place, "fs")


@contextmanager
def _errors_of(url: object) -> Iterator[None]:
    """Turn every error of a store's library into an OSError that names the URL."""
    try:
        yield
    except FileNotFoundError as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and _has_failed(cause):
            raise _store_error(url, cause) from _cause(url, cause)
        name = public(str(url))
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from None
    except (MemoryError, _AnswerError):
        raise
    except Exception as error:
        raise _store_error(url, error) from _cause(url, error)


def _has_failed(cause: Exception) -> bool:
    """Return whether a file that fsspec calls missing may be there, and the request has failed.

    At the first request for a file, fsspec takes each status of HTTP for a missing file.
    """
    if isinstance(status := getattr(cause, "status", None), int):
        return status not in (404, 410)
    return isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)


def _cause(url: object, error: Exception) -> Exception | None:
    """Return an error of a library for tracebacks, unless its words may have secrets of URLs."""
    return None if _may_show_secrets(str(url)) else error


def _store_error(url: object, error: Exception) -> OSError:
    """Return the error of the system that says what a library's error says, in one line."""
    number = getattr(error, "errno", None)
    if number is None and isinstance(error, PermissionError):
        number = errno.EACCES
    elif number is None and isinstance(error, TimeoutError):
        number = errno.ETIMEDOUT
    elif not isinstance(number, int) or number == errno.EPIPE:
        # The command line takes a broken pipe for a reader that has enough, which is a success.
        number = errno.EIO
    said = _public_words(error, str(url))
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    advice = "check the connection and your access, then try again"
    return OSError(number, f"{what}; {advice}", public(str(url)))


# Input files


def is_file(path: str) -> bool:
    """Return whether a path is a regular file, which can be read twice. A URL counts as one."""
    return is_url(path) or os.path.isfile(reachable(path))


def size_of(path: str | Path) -> int:
    """Return the size of a file in bytes. Raises OSError if it is missing."""
    place = located(path) if isinstance(path, str) else path
    if not is_remote(place):
        return os.path.getsize(place)
    remote: Any = place
    with _errors_of(place):
        size: int | None = remote.fs.size(remote.path)
    if size is None:
        raise OSError(f"{public(str(place))}: the server does not tell its size; download it")
    return size


_SAMPLES, _SAMPLE_BYTES = 16, 1 << 12


def sample_of(path: str, size: int) -> str | None:
    """Return the CRC-32 of some blocks of a file, the first and the last included, in hexadecimal.

    It tells most files of one size apart. None for a URL: a store takes too long for it.
    """
    if is_url(path):
        return None
    last = max(size - _SAMPLE_BYTES, 0)
    crc = 0
    with open(reachable(path), "rb", buffering=0) as file:
        for offset in sorted({last * number // (_SAMPLES - 1) for number in range(_SAMPLES)}):
            file.seek(offset)
            crc = zlib.crc32(file.read(_SAMPLE_BYTES), crc)
    return f"{crc:08x}"


def opened(path: str) -> Any:
    """Return an open file in binary, with `readinto` and `seek`."""
    place: Any = located(path)
    if not is_remote(place):
        return open(place, "rb", buffering=0)
    with _errors_of(path):
        file = place.fs.open(place.path, "rb", block_size=_READ_AHEAD_BYTES, cache_type="readahead")
    if isinstance(file, io.BytesIO):
        file = io.BytesIO(file.getvalue())  # the files of fsspec's memory share one position
    elif (cache := getattr(file, "cache", None)) is not None and file.size is not None:
        cache.fetcher = _whole(cache.fetcher, public(path), file.size)
    return StoreFile(path, file, place.fs)


class _AnswerError(OSError):
    """A server sends other bytes than it was asked for."""


def _whole(fetch: Callable[[int, int], bytes], name: str, size: int) -> Callable[[int, int], bytes]:
    """Return a function that fetches a range of a file, and raises OSError for a part of it.

    Bytes that a server announced and does not send would be the end of the file to fsspec, or, if
    the server ignores ranges, the first bytes once more.
    """

    def fetched(start: int, end: int) -> bytes:
        try:
            data = fetch(start, end)
        except ValueError as error:
            if type(error) is not ValueError or not _REDIRECTS.match(name):
                raise
            detail = "the server does not send parts of a file; download it"
            raise _AnswerError(f"{name}: {detail}") from None
        wanted = min(end, size) - start
        if len(data) < wanted:
            raise _AnswerError(
                f"{name}: the server sent {len(data)} of {wanted} bytes from byte {start} on, of "
                f"{size} that it announced; try again, or download the file"
            )
        return data

    return fetched


class StoreFile(io.RawIOBase):
    """An open file of a store, whose errors name its URL."""

    def __init__(self, url: str, file: Any, files: Any) -> None:
        self._url = url
        self._file = file
        self._files = files  # kept: an archive closes its file when it is no longer used
        self.error: OSError | None = None
        """The last error, for users of libraries that replace it by one of their own."""

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            with _errors_of(self._url):
                yield
        except OSError as error:
            self.error = error
            raise

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        with self._errors():
            return self._file.read(size)  # type: ignore[no-any-return]

    def readinto(self, buffer: Any) -> int:
        with self._errors():
            return self._file.readinto(buffer)  # type: ignore[no-any-return]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with self._errors():
            return self._file.seek(offset, whence)  # type: ignore[no-any-return]

    def tell(self) -> int:
        return self._file.tell()  # type: ignore[no-any-return]

    def close(self) -> None:
        if not self.closed:
            super().close()
            with self._errors():
                self._file.close()


def matching(path: str) -> list[str]:
    """Return the files and folders that a path or a glob names, sorted; none if it names none."""
    if not is_url(path):
        if os.path.lexists(reachable(path)) or not glob.has_magic(path):
            os.stat(reachable(path))  # its error names the path
            return [path]
        found = sorted(glob.glob(path, recursive=True))
        for each in found:
            check_found(Path(reachable(each)))
        return found
    place: Any = located(path)
    if not is_remote(place):
        return matching(str(place))
    with _errors_of(path):
        if not glob.has_magic(public(path)) or place.fs.exists(place.path):
            place.fs.info(place.path)
            return [path]
        return sorted(map(place.fs.unstrip_protocol, place.fs.glob(place.path)))


def is_folder(path: str) -> bool:
    """Return whether a path is a folder, or the beginning of the names of objects."""
    place: Any = located(path)
    if not is_remote(place):
        return os.path.isdir(place)
    with _errors_of(path):
        return bool(place.fs.isdir(place.path))


def files_below(folder: str) -> list[str]:
    """Return the files of a folder and its folders, sorted.

    Files and folders whose names begin with `.` or `_` are left out: programs write logs and marks
    such as `_SUCCESS` under these names. So are the files that Windows makes in shown folders.
    """
    place: Any = located(folder)
    if not is_remote(place):
        return sorted(_walk(str(place) if is_url(folder) else reachable(folder), ()))
    with _errors_of(folder):
        root = place.path.rstrip("/")
        found = place.fs.find(root)
    return sorted(
        place.fs.unstrip_protocol(name)
        for name in found
        if not any(map(_is_left_out, name[len(root) :].split("/")))
    )


def _walk(folder: str, parents: tuple[tuple[int, int], ...]) -> Iterator[str]:
    status = os.stat(folder)
    identity = (status.st_dev, status.st_ino)
    if identity in parents:
        return  # a link leads back to a folder that contains it
    with os.scandir(folder) as entries:
        for entry in entries:
            if _is_left_out(entry.name):
                continue
            if entry.is_dir():
                yield from _walk(entry.path, (*parents, identity))
            else:
                if not entry.is_file():
                    check_found(Path(entry.path))
                yield entry.path


# Folders of token files


def exists(path: Path) -> bool:
    with _errors_of(path) if is_remote(path) else nullcontext():
        return path.exists()


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder, sorted, without files of the desktop.

    A folder of an object store may be missing.
    """
    if not is_remote(folder):
        return sorted(path.name for path in folder.iterdir() if not _is_of_desktop(path.name))
    remote: Any = folder
    with _errors_of(folder), suppress(FileNotFoundError):
        names = remote.fs.ls(remote.path, detail=False)
        found = {name.rstrip("/").rpartition("/")[2] for name in names} - {folder.name}
        return sorted(name for name in found if not _is_of_desktop(name))
    return []


def _is_left_out(name: str) -> bool:
    """Return whether a folder's file or folder of this name is not part of a corpus."""
    return name.startswith((".", "_")) or _is_of_desktop(name)


def _is_of_desktop(name: str) -> bool:
    """Return whether macOS or Windows makes files of this name when a user opens a folder."""
    return name.startswith("._") or name.lower() in (".ds_store", "thumbs.db", "desktop.ini")


def read(path: Path) -> bytes:
    """Return the bytes of a file. Raises FileNotFoundError that names the path."""
    if not is_remote(path):
        check_found(path)
        return repeated(path.read_bytes)
    with _errors_of(path):
        return path.read_bytes()


def version_of(path: Path) -> tuple[object, ...]:
    """Return figures that differ after a file was replaced."""
    if is_remote(path):
        remote: Any = path
        with _errors_of(path):
            return (remote.fs.ukey(remote.path),)
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def upload(local: Path, target: Path) -> None:
    """Copy a file of this machine to a URL: whole, or not at all."""
    remote: Any = target
    with _errors_of(target):
        remote.fs.put_file(str(local), remote.path)


@contextmanager
def on_disk(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Yield a folder of this machine that has some files of a folder, until the block ends."""
    if not is_remote(folder):
        yield folder
        return
    remote: Any = folder
    import tempfile  # slow to import, and rarely needed

    # Windows does not remove a file that a consumer of the caller still has mapped.
    with tempfile.TemporaryDirectory(prefix="bpetite-", ignore_cleanup_errors=True) as temporary:
        for name in names:
            target = Path(temporary, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            place = remote / name
            with _errors_of(place):
                place.fs.get_file(place.path, str(target))
        yield Path(temporary)


def remove_file(path: Path) -> None:
    with _errors_of(path) if is_remote(path) else nullcontext(), suppress(FileNotFoundError):
        path.unlink()


def remove_folder(folder: Path) -> None:
    if not is_remote(folder):
        import shutil  # slow to import, and rarely needed

        shutil.rmtree(folder, ignore_errors=True)
        return
    remote: Any = folder
    with _errors_of(folder), suppress(FileNotFoundError):
        remote.fs.rm(remote.path, recursive=True)
