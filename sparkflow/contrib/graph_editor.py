"""tf.contrib.graph_editor: of it, the walks along a graph's edges (also tensorflow.python.ops.op_selector)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from sparkflow.framework.graph import Operation, Tensor

__all__ = ["get_backward_walk_ops", "get_forward_walk_ops"]


def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Iterable[Tensor] = (),
    control_inputs: bool = False,
) -> list[Operation]:
    """What the seeds are computed from, the nearest first: the seeds themselves where `inclusive`, then wave by wave
    the ops that make their inputs.

    seed_ops: ops or tensors, one or several. within_ops, within_ops_fn: which ops alone the walk may touch. stop_at_ts:
    tensors whose op it does not go to. control_inputs: whether it goes to what an op waits for, too. Raises TypeError
    on another seed.
    """
    stopped = set(stop_at_ts)

    def before(op: Operation) -> list[Operation]:
        data = [t.op for t in op.inputs if t not in stopped]
        return [*data, *op.control_inputs] if control_inputs else data

    seeds = [seed.op if isinstance(seed, Tensor) else seed for seed in _listed(seed_ops)]
    return _walk(seeds, before, inclusive, within_ops, within_ops_fn)


def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Iterable[Operation] | None = None,
    within_ops_fn: Callable[[Operation], bool] | None = None,
    stop_at_ts: Iterable[Tensor] = (),
    control_outputs: bool = False,
) -> list[Operation]:
    """What is computed from the seeds, the nearest first; of a tensor, what takes it. The rest is as in
    get_backward_walk_ops."""
    listed, stopped = _listed(seed_ops), set(stop_at_ts)
    takers: dict[Any, list[Operation]] = defaultdict(list)
    for op in listed[0].graph.get_operations() if listed else ():
        for t in op.inputs:
            takers[t].append(op)
        for other in op.control_inputs if control_outputs else ():
            takers[other].append(op)

    def behind(op: Operation) -> list[Operation]:
        data = [taker for t in op.outputs if t not in stopped for taker in takers[t]]
        return [*data, *takers[op]]

    seeds = [op for seed in listed for op in (takers[seed] if isinstance(seed, Tensor) else [seed])]
    return _walk(seeds, behind, inclusive, within_ops, within_ops_fn)


def _listed(seeds: Any) -> list[Any]:
    listed = list(seeds) if isinstance(seeds, (list, tuple, set, frozenset)) else [seeds]
    for seed in listed:
        if not isinstance(seed, (Operation, Tensor)):
            raise TypeError(f"seed_ops must be operations or tensors of a graph, got {seed!r}")
    return listed


def _walk(
    seeds: list[Operation],
    beside: Callable[[Operation], list[Operation]],
    inclusive: bool,
    within_ops: Iterable[Operation] | None,
    within_ops_fn: Callable[[Operation], bool] | None,
) -> list[Operation]:
    within = None if within_ops is None else set(within_ops)

    def may(op: Operation) -> bool:
        return (within is None or op in within) and (within_ops_fn is None or within_ops_fn(op))

    found = dict.fromkeys(op for op in seeds if may(op))
    wave = [*found]
    while wave:
        reached = dict.fromkeys(next_op for op in wave for next_op in beside(op))
        wave = [op for op in reached if op not in found and may(op)]
        found.update(dict.fromkeys(wave))
    left_out = set() if inclusive else set(seeds)
    return [op for op in found if op not in left_out]
