"""Random numbers of datasets: of one run through them, which begins when an iterator is initialized.

With a seed every run draws the same ones. Without, what a run draws follows from one number, its root, so that it can
be gone through again (position.py).
"""

from __future__ import annotations

import secrets
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sparkflow.data.elements import OF_RUN, Fed
from sparkflow_runtime.kernels import philox

_SEEDS = 256  # that are drawn at once
_ROOT: Any = object()  # among the values of a run: what gives its generators their seeds


def run(values: Mapping[Any, Any], root: int) -> Fed:
    """What the rows of one run are asked for with. values: those of the dataset's tensors."""
    return {**values, _ROOT: np.random.default_rng(root), OF_RUN: {}}


def within(fed: Fed, values: Mapping[Any, Any]) -> Fed:
    """For a dataset that a function makes of an element of a run: values are those of its own tensors."""
    return {**values, **{key: fed[key] for key in (_ROOT, OF_RUN) if key in fed}}


def part(fed: Fed, joins: Any, number: int) -> Fed:
    """For one of the datasets that `joins` stands for the joining of: what draws in several of them draws in each from
    the beginning of its stream, as TensorFlow's do, so that two shuffled alike stay side by side."""
    kept: Any = fed
    own = kept.setdefault((joins, number), {OF_RUN: {}})
    return ChainMap(own, *(kept.maps if isinstance(kept, ChainMap) else (kept,)))


def each(datasets: Sequence[Any], fed: Fed, joins: Any) -> list[Any]:
    """The rows of all of them."""
    return [dataset._rows(part(fed, joins, number)) for number, dataset in enumerate(datasets)]


def whole(fed: Fed) -> Any:
    """What all parts have in common."""
    return fed.maps[-1] if isinstance(fed, ChainMap) else fed


def new_root() -> int:
    return secrets.randbits(62)


def generator(fed: Fed, key: Any, pair: tuple[int, int], anew: bool = True) -> np.random.Generator:
    """That of a transformation, which `key` stands for, in a run. pair: as get_seed has it. anew: whether it goes on
    where the run comes by again, else it begins again."""
    kept: Any = fed
    if key not in kept:
        seed: Any = [abs(s) for s in pair] if pair != (0, 0) else _drawn(kept)
        kept[key] = np.random.default_rng(seed) if anew else seed
    known = kept[key]
    return known if anew else np.random.default_rng(known)


def words(fed: Fed, key: Any, pair: tuple[int, int], anew: bool = True) -> philox.Words:
    """As `generator`, of what draws by TensorFlow's own bits. anew: each time that the run comes by has two seeds of
    its own, drawn by the pair."""
    kept: Any = fed
    if key not in kept:
        if pair == (0, 0):
            root = _drawn(kept)
            pair = root % (1 << 31), root >> 31
        kept[key] = philox.Words(philox.of_op(pair)) if anew else pair
    known = kept[key]
    return philox.Words(philox.of_op(tuple(known.take(2).tolist()) if anew else known))


def classes(words: philox.Words, shares: np.ndarray) -> Iterator[int]:
    """One after the other, each as likely as its share, as TensorFlow draws them: by a stateless op that has two words
    as its seed."""
    sums = running_sums(shares)
    while True:
        drawn = even_of_seeds(words) * sums[-1]
        yield from np.searchsorted(sums, drawn, "right").clip(0, len(sums) - 1).tolist()


def running_sums(shares: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore"):
        logs = np.log(shares.astype(np.float32)).astype(np.float64)
    return np.asarray(np.cumsum(np.exp(logs - logs.max())))


def even_of_seeds(words: philox.Words) -> np.ndarray:
    """What the ops of many seeds one behind the other draw, float64 in [0, 1)."""
    seeds = words.take(2 * _SEEDS).reshape(-1, 2).astype(np.uint64)
    return philox.wide_unit(philox.first_words(seeds)[:, :2])[:, 0]


def _drawn(fed: Any) -> int:
    root = fed.get(_ROOT)
    return new_root() if root is None else int(root.integers(1 << 62))
