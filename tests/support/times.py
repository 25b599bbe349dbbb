"""Measures time on a machine that may do other work meanwhile."""

from collections.abc import Callable


def best_time(seconds_of_run: Callable[[], float], enough: float) -> float:
    """Return the shortest time of up to five runs; the first time under `enough` ends them.

    Other processes can slow one run, but hardly five.
    """
    times = [seconds_of_run()]
    while min(times) >= enough and len(times) < 5:
        times.append(seconds_of_run())
    return min(times)
