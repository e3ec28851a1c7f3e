"""TensorFlow's seed rule: a graph seed and an op seed give each random op a pair of seeds."""

from __future__ import annotations

import hashlib

from sparkflow.framework.graph import get_default_graph

DEFAULT_GRAPH_SEED = 87654321
_MOST = 2**31 - 1


def set_random_seed(seed: int) -> None:
    get_default_graph().seed = seed


def get_seed(op_seed: int | None) -> tuple[int, int]:
    """(seed, seed2) of the next random op; (0, 0) where neither seed is set, which means a fresh one each session.

    How many ops of the graph had none before stands in for a missing op seed, as in TensorFlow 2: a graph built alike
    draws alike, there and here. Each is taken modulo 2**31 - 1.
    """
    graph = get_default_graph()
    if graph.seed is None and op_seed is None:
        return 0, 0
    if op_seed is None:
        op_seed, graph.seeds_given = graph.seeds_given, graph.seeds_given + 1
    pair = ((DEFAULT_GRAPH_SEED if graph.seed is None else graph.seed) % _MOST, op_seed % _MOST)
    return pair if pair != (0, 0) else (0, _MOST)


def salted(seed: int | None, salt: str) -> int | None:
    """A seed for another op that follows from one of two, as TensorFlow's distributions and cells make it."""
    if seed is None:
        return None
    return int(hashlib.md5(f"{seed}{salt}".encode(), usedforsecurity=False).hexdigest()[:8], 16) & 0x7FFFFFFF
