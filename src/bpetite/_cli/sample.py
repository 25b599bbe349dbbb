"""Text that every Python includes, to train on at once."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from pathlib import Path

_SOURCE_CHARACTERS = 4_000_000


def python_documents() -> Iterator[str]:
    """Yield Python's documentation topics, then 4 MB of source files of its standard library."""
    from pydoc_data.topics import topics

    yield from topics.values()
    size = 0
    for path in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        source = path.read_text(encoding="utf-8", errors="replace")
        yield source
        size += len(source)
        if size > _SOURCE_CHARACTERS:
            return
