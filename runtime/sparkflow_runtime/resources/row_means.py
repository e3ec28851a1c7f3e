"""Rows of gradients that are averaged by their indices: those of one gradient added up, and which of several meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def summed(indices: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """With the rows of one index added up in their order, from zero, and none twice; indices in order of first
    appearance; copies."""
    _, first, positions = np.unique(indices, return_index=True, return_inverse=True)
    if len(first) == len(indices):
        return indices, values + values.dtype.type(0)
    order = np.argsort(first)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    total = np.zeros((len(first), *values.shape[1:]), values.dtype)
    np.add.at(total, places[positions], values)
    return indices[first[order]], total


def ascend(indices: np.ndarray) -> bool:
    return bool((indices[1:] > indices[:-1]).all())


def column(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """One number for each row."""
    return numbers.reshape(-1, *(1,) * (rows.ndim - 1))


def merged(gradients: Sequence[list[int]]) -> list[list[int]]:
    """Of each row of these gradients, by their indices, over how many rows its mean is.

    TensorFlow merges gradient after gradient as if their indices ascended: rows of one index meet, and count as one of
    their mean, where both lists have come to them. So rows of indices that do ascend meet whenever they can, and there
    is one mean for each index. Of others, such as a batch's ids, most never meet: they stay in the average side by side
    and are a sum to whoever applies it. A learning rate that was found there means the same here.
    """
    counts: list[int] = []
    so_far: list[tuple[int, int]] = []  # (index, number of its mean), as they lie in the average
    members: list[list[int]] = []
    for indices in gradients:
        found, mine, i = [], [], 0
        for index in indices:
            while i < len(so_far) and so_far[i][0] < index:
                found.append(so_far[i])
                i += 1
            if i < len(so_far) and so_far[i][0] == index:
                found.append(so_far[i])
                i += 1
            else:
                found.append((index, len(counts)))
                counts.append(0)
            mine.append(found[-1][1])
            counts[mine[-1]] += 1
        so_far = found + so_far[i:]
        members.append(mine)
    return [[counts[k] for k in mine] for mine in members]
