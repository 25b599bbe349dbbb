"""Failures: their words and their exit code."""

from __future__ import annotations

import errno
import os

from bpetite._cli.common import say

FAILURES = (OSError, ValueError, KeyError, OverflowError, MemoryError)
"""What a verb raises for a failure. Any other exception is a bug and keeps its traceback."""


def fail(error: BaseException) -> int:
    """Print one line about an error to standard error, and return the exit code."""
    if isinstance(error, KeyboardInterrupt):
        say("interrupted")
        return 130
    say(_message(error))
    return 1


def _message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return str(error) or "out of memory"
    if isinstance(error, OSError) and error.strerror:
        path = f"{error.filename or repr('')}: " if error.filename is not None else ""
        return f"{path}{error.strerror}"
    if isinstance(error, KeyError) and error.args:
        return str(error.args[0])  # str(error) would put quotes around the message
    return str(error)


def decoding_failure(error: UnicodeDecodeError, offset: int = 0) -> ValueError:
    """Return an error that says which byte of the tokens is not UTF-8, and what to do.

    `offset` is the number of bytes before the ones that the error has.
    """
    message = str(error)
    if offset:
        first, last = error.start + offset, error.end + offset - 1
        where = (
            f"byte 0x{error.object[error.start]:02x} in position {first}"
            if first == last
            else f"bytes in position {first}-{last}"
        )
        message = f"'utf-8' codec can't decode {where}: {error.reason}"
    return ValueError(f"{message}; --errors replace writes U+FFFD in place of such bytes")


def is_closed_pipe(error: BaseException) -> bool:
    """Return whether the reader of standard output has closed it."""
    # Windows reports a closed pipe as an invalid argument.
    return isinstance(error, BrokenPipeError) or (
        os.name == "nt"
        and isinstance(error, OSError)
        and error.errno == errno.EINVAL
        and error.filename is None
    )
