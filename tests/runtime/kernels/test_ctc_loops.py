"""CTC's search over prefixes: both versions find the same ones with the same bits, and no likelier one is missed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import ctc_loops as loops


def _room(steps: int, classes: int, width: int) -> list[Any]:
    tree, kept = np.zeros((5, 1 + steps * width), np.int64), np.zeros((5, width), np.int64)
    return [tree, kept, np.zeros((7, width)), np.zeros(width * (classes - 1), np.int64)]


def _scores(steps: int, classes: int, seed: int, spread: float) -> np.ndarray:
    x = np.random.default_rng(seed).standard_normal((steps, classes)) * spread
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _paths(room: list[Any], count: int) -> list[tuple[int, ...]]:
    tree, kept, found = room[0], room[1], []
    for node in kept[loops.NODE, :count].tolist():
        path: list[int] = []
        while node != loops.ROOT:
            path.append(int(tree[loops.LABEL, node]))
            node = int(tree[loops.PARENT, node])
        found.append(tuple(path[::-1]))
    return found


@pytest.mark.parametrize(
    "steps, classes, width", [(30, 6, 8), (12, 3, 1), (0, 4, 3), (9, 1, 2), (25, 12, 40), (6, 2, 9)]
)
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_both_versions_have_the_same_bits(steps: int, classes: int, width: int, spread: float) -> None:
    for seed in range(5):
        scores = _scores(steps, classes, seed, spread)
        if seed == 3 and steps:
            scores[:, 0] = -np.inf
        if seed == 4:
            scores = np.round(scores)  # many that are equal
        made = []
        for version in (loops.search.compile(), loops.search.numpy):
            room = _room(steps, classes, width)
            with np.errstate(all="ignore"):
                count = version(scores, *room)
            logs = room[2][[loops.IN_LABEL, loops.IN_BLANK, loops.TOTAL], :count]
            made.append((count, _paths(room, count), logs.tobytes()))
        assert made[0] == made[1]


def test_log_add() -> None:
    a = np.concatenate([np.linspace(-50, 3, 400), [-np.inf, 0.0, -np.inf]])
    b = np.concatenate([np.linspace(2, -9, 400), [-np.inf, -np.inf, -3.0]])
    found = loops.log_add_of(a, b)
    np.testing.assert_allclose(found, np.logaddexp(a, b), rtol=1e-15, atol=1e-16)


def test_with_room_for_all_prefixes_none_is_missed() -> None:
    steps, classes = 4, 3
    scores = _scores(steps, classes, 1, 1.0)
    room = _room(steps, classes, 200)
    count = loops.search.numpy(scores, *room)
    wanted: dict[tuple[int, ...], float] = {}
    for alignment in itertools.product(range(classes), repeat=steps):
        labels = tuple(c for c, _ in itertools.groupby(alignment) if c != classes - 1)
        probability = float(np.exp(sum(scores[t, c] for t, c in enumerate(alignment))))
        wanted[labels] = wanted.get(labels, 0.0) + probability
    found = dict(zip(_paths(room, count), np.exp(room[2][loops.TOTAL, :count]).tolist()))
    assert found.keys() == wanted.keys()
    np.testing.assert_allclose([found[k] for k in wanted], list(wanted.values()), rtol=1e-13)
