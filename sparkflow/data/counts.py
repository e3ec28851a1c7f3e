"""How many elements datasets have: a number, INFINITE, or UNKNOWN until they have been gone through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.data.elements import Fed, Given

INFINITE, UNKNOWN = -1, -2
Count = Callable[..., int]  # of how many there were before, and the values of settings


def unknown(fed: Fed) -> int:
    return UNKNOWN


def not_known(count: int, *settings: Any) -> int:
    return UNKNOWN


def same(count: int, *settings: Any) -> int:
    return count


def of_rows(rows: Callable[[Fed], Any]) -> Callable[[Fed], int]:
    """Of what has a length."""
    return lambda fed: len(rows(fed))


def of_range(given: Given) -> Callable[[Fed], int]:
    return lambda fed: len(range(*[int(x) for x in given.values(fed)]))


def of_zip(datasets: Sequence[Any]) -> Callable[[Fed], int]:
    def count(fed: Fed) -> int:
        found = [d._count(fed) for d in datasets]
        return UNKNOWN if UNKNOWN in found else min((n for n in found if n != INFINITE), default=INFINITE)

    return count


def repeated(count: int, times: Any) -> int:
    if times is None or times < 0:
        return INFINITE if count else 0
    return 0 if times == 0 else count if count < 0 else count * int(times)


def taken(count: int, wanted: Any) -> int:
    wanted = int(wanted)
    return count if count == UNKNOWN or wanted < 0 else wanted if count == INFINITE else min(count, wanted)


def skipped(count: int, gone: Any) -> int:
    return 0 if gone < 0 else count if count < 0 else max(count - int(gone), 0)


def of_shard(count: int, shards: Any, index: Any) -> int:
    return count if count < 0 else count // int(shards) + (int(index) < count % int(shards))


def batched(count: int, size: Any, drop: bool) -> int:
    return count if count < 0 else count // int(size) if drop else -(-count // int(size))


def added(found: Iterable[int]) -> int:
    found = list(found)
    return INFINITE if INFINITE in found else UNKNOWN if UNKNOWN in found else sum(found)
