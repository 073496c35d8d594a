"""How a population is cut into pieces that are moved at a time, and into shares for threads."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from .streams import CHUNK, rows_per_stream
from .threads import MOST

_JOINT = 4  # streams whose rows are moved at a time: calls that take longer leave more to other threads


class Block(NamedTuple):
    """A piece of a population that is moved at a time: some whole runs, or the rows of some streams of one run.

    Few calls, of arrays that are in the cache when the next call needs them.
    """

    runs: slice
    rows: slice
    streams: slice
    n: int  #: rows of each stream


Share = list[Block]  # what a thread moves, all of the same runs


@lru_cache(maxsize=8)
def shares_of(n_runs: int, n: int, d: int) -> list[Share]:
    """Cut an (R, N, d) array: several whole runs at a time, or each run at the ends of streams.

    Of a run there are few: the sums that each has of its own must be small beside the population.
    """
    if n * d <= CHUNK:
        step = max(1, CHUNK // (n * d))
        return [
            [Block(slice(r, min(r + step, n_runs)), slice(0, n), slice(0, 1), n)] for r in range(0, n_runs, step)
        ]  # fmt: skip
    n_streams = -(-n // rows_per_stream(d))
    n_shares = min(n_streams, MOST, max(2, n // 32))
    cuts = [n_streams * i // n_shares for i in range(n_shares + 1)]
    return [list(_blocks(r, *ends, n, d)) for r in range(n_runs) for ends in pairwise(cuts)]


def _blocks(run: int, start: int, stop: int, n: int, d: int) -> Iterator[Block]:
    """Cut what belongs to some streams of a run; the last stream may have fewer rows than the others."""
    length = rows_per_stream(d)
    full = min(stop, n // length)
    for i in range(start, full, _JOINT):
        j = min(i + _JOINT, full)
        yield Block(slice(run, run + 1), slice(i * length, j * length), slice(i, j), length)
    if full < stop:
        yield Block(slice(run, run + 1), slice(full * length, n), slice(full, stop), n - full * length)
