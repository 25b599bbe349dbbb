"""Reads ahead: a thread makes items while the consumer works on earlier ones."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

from bpetite.corpora._threads import can_start_threads

Item = TypeVar("Item")

_MAX_WAITING = 2

# The thread is looked at this often, in seconds. Also, Ctrl-C ends a wait on every system.
_WAIT_SECONDS = 0.2


def read_ahead(make: Callable[[], Iterator[Item]]) -> Generator[Item, None, None]:
    """Yield the items of an iterator that another thread runs, at most two items ahead.

    An error of the iterator reaches the consumer behind the items before it. If the consumer stops,
    the thread closes the iterator and ends. On one processor, or without threads, none starts.
    """
    if _usable_processors() == 1 or not can_start_threads():
        yield from make()
        return
    queue: _Queue[Item] = _Queue()
    thread = threading.Thread(
        target=queue.fill, args=(make,), name="bpetite corpus reader", daemon=True
    )
    try:
        thread.start()
    except RuntimeError:  # the system has no thread left
        yield from make()
        return
    try:
        yield from queue.items(thread)
    finally:
        queue.stop()
        thread.join()


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Queue(Generic[Item]):
    """Items between two threads."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque()
        self._error: BaseException | None = None
        self._is_filled = self._is_stopped = False

    def fill(self, make: Callable[[], Iterator[Item]]) -> None:
        """Put all items in; the work of the thread."""
        items = make()
        try:
            while not self._is_stopped:
                try:
                    item = next(items)
                except StopIteration:
                    break
                self._put(item)
                del item  # its memory belongs to the consumer
        except BaseException as error:
            self._error = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._is_filled = True
                self._changed.notify_all()

    def _put(self, item: Item) -> None:
        with self._changed:
            while len(self._waiting) >= _MAX_WAITING and not self._is_stopped:
                self._changed.wait(_WAIT_SECONDS)
            self._waiting.append(item)
            self._changed.notify_all()

    def items(self, thread: threading.Thread) -> Iterator[Item]:
        """Yield all items, then raise the error of the thread, if there is one."""
        while True:
            with self._changed:
                while not self._waiting and not self._is_filled:
                    self._changed.wait(_WAIT_SECONDS)
                    if not thread.is_alive() and not self._is_filled:
                        raise RuntimeError(
                            "the thread that reads the corpus has ended; do not fork a process "
                            "while a corpus is read"
                        )
                if not self._waiting:
                    break
                item = self._waiting.popleft()
                self._changed.notify_all()
            yield item
            del item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Tell the thread that no more items are wanted."""
        with self._changed:
            self._is_stopped = True
            self._waiting.clear()
            self._changed.notify_all()
