"""Settings of allocators, for processes that do nothing but read and write corpora."""

from __future__ import annotations

import os
import sys

# The options of mallopt, as malloc.h has them. The buffers of a batch are smaller than 4 MiB, so
# the next batch reuses them; if the system cleared them each time, Parquet would take 15 % longer.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_SETTINGS = {_M_MMAP_THRESHOLD: 1 << 22, _M_TRIM_THRESHOLD: 1 << 22, _M_ARENA_MAX: 1}


def return_freed_memory() -> None:
    """Let large buffers go back to the system when they are freed.

    By default, glibc keeps buffers as long as the longest one so far, in a heap for each thread.
    pyarrow's own allocator keeps more. Together that is 15 to 40 MB of a run. The settings are
    those of a whole process, so only processes that belong to bpetite call this.
    """
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    if sys.platform == "linux":
        import ctypes

        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # musl has none
            for option, value in _SETTINGS.items():
                mallopt(option, value)
