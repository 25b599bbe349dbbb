"""Threads, or the same work without them where the system has none, as in a browser."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache
from typing import Any


@cache
def can_start_threads() -> bool:
    """Return whether this system has threads. WebAssembly, as a rule, has none."""
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


def thread_pool(threads: int) -> Executor:
    """Return an executor with threads; without any, one that does all work at once.

    >>> with thread_pool(1) as pool:
    ...     pool.submit(max, 1, 2).result()
    2
    """
    return ThreadPoolExecutor(threads) if can_start_threads() else _AtOnce()


class _AtOnce(Executor):
    """Does all work in the thread that submits it."""

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **options))
        except Exception as error:
            future.set_exception(error)
        return future
