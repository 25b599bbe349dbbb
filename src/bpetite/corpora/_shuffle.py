"""An order of numbers by a seed. Each place is computed on its own, so no list is in memory."""

from __future__ import annotations

from array import array
from math import isqrt
from random import Random

_ROUNDS = 2
"""Four moves by random numbers: Luby and Rackoff have shown that their order cannot be told from a
random one until about as many places are seen as the table has columns."""


class Shuffle:
    """A permutation of the numbers below `count`, in memory that grows with its square root.

    A number is a row and a column of a table. A round moves the row by a random number of its
    column, then the column by a random number of its row: a Feistel network. Both can be undone,
    so no two numbers meet. The table has up to a row more than numbers. Where a number leaves the
    first `count`, it goes through again until it is back, which can be undone too.

    >>> sorted(map(Shuffle(5, seed=1), range(5)))
    [0, 1, 2, 3, 4]
    """

    def __init__(self, count: int, seed: int) -> None:
        self._count = count
        self._columns = isqrt(max(count - 1, 0)) + 1
        self._rows = -(-count // self._columns)
        random = Random(f"{seed}").random  # the same for every Python
        self._moves = [
            tuple(
                array("I", (int(random() * bound) for _ in range(size)))
                for size, bound in ((self._columns, self._rows), (self._rows, self._columns))
            )
            for _ in range(_ROUNDS)
        ]

    def __call__(self, number: int) -> int:
        """Return the number at a place below `count`."""
        columns, rows = self._columns, self._rows
        while True:
            row, column = divmod(number, columns)
            for row_moves, column_moves in self._moves:
                row = (row + row_moves[column]) % rows
                column = (column + column_moves[row]) % columns
            number = row * columns + column
            if number < self._count:
                return number
