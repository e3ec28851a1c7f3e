"""DistributedOptimizer: data-parallel training without servers. Every worker has all variables, and applies the mean of
all workers' gradients, which collectives give to everybody with the same bits (sparkflow/ops/collective)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.ops import (
    array,
    array_join,
    collective,
    control_flow,
    gathered_rows,
    math,
    math_reduce,
    math_special,
    state,
    variables,
)
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.session_run_hook import SessionRunHook
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import InvalidArgumentError

_log = logging.getLogger("sparkflow")
PACK_BYTES = 4 << 20  # small gradients travel together, up to about so much a message
_ALONE_BYTES = 1 << 20  # and one from this size on by itself: a copy would cost more than a message
_GROUP_KEY = 1
GradsAndVars = list[tuple[Any, Any]]
# What TensorFlow's collectives do not take travels by a type that holds the same values, or the same bits.
_CAST = {
    dtypes.bfloat16: dtypes.float32,
    dtypes.int8: dtypes.int32,
    dtypes.int16: dtypes.int32,
    dtypes.uint8: dtypes.int32,
    dtypes.uint16: dtypes.int32,
    dtypes.uint32: dtypes.int64,
}
_BITCAST = {dtypes.uint64: dtypes.int64, dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


class Group:
    """`num_replicas` workers that run the same graph: they give the n-th collective of a graph the same keys."""

    def __init__(self, num_replicas: int, group_key: int = _GROUP_KEY, timeout_s: float = 0.0):
        if num_replicas < 1:
            raise ValueError(f"num_replicas must be at least 1, got {num_replicas}")
        self.size, self.key, self.timeout_s = num_replicas, group_key, timeout_s

    def _keys(self) -> tuple[int, int, int]:
        used = get_default_graph().extra.setdefault("collective_instances", {})
        used[self.key] = used.get(self.key, 0) + 1
        return self.size, self.key, used[self.key]

    def mean(self, x: Tensor) -> Tensor:
        def run(t: Tensor) -> Tensor:
            return collective.all_reduce(t, *self._keys(), "Add", "Div", timeout=self.timeout_s)

        return _carried(x, run, (dtypes.bfloat16,))

    def sum(self, x: Tensor) -> Tensor:
        return _carried(x, lambda t: collective.all_reduce(t, *self._keys(), "Add", timeout=self.timeout_s))

    def gather(self, x: Tensor) -> Tensor:
        return _carried(x, lambda t: collective.all_gather(t, *self._keys(), timeout=self.timeout_s))

    def broadcast(self, x: Tensor, is_source: bool) -> Tensor:
        keys = self._keys()

        def run(t: Tensor) -> Tensor:
            if is_source:
                return collective.broadcast_send(t, t.shape, t.dtype, *keys, timeout=self.timeout_s)
            return collective.broadcast_recv(t.shape, t.dtype.base_dtype, *keys, timeout=self.timeout_s)

        return _carried(x, run)


class Means:
    """Called with pairs of a gradient and a variable: the same with the means of all workers' gradients. What are such
    means already stay. sparse_as_dense: as DistributedOptimizer has it."""

    def __init__(self, group: Group, sparse_as_dense: bool = False):
        self._group, self._dense = group, sparse_as_dense

    def __call__(self, pairs: GradsAndVars, distinct: bool = False) -> GradsAndVars:
        """distinct: whether a sparse gradient may come with the rows of one index added up: where nothing but an update
        takes it. Norms would tell the difference."""
        means: set[Any] = get_default_graph().extra.setdefault("means_of_workers", set())
        if self._group.size == 1 or all(_tensor(grad) in means for grad, _ in pairs if grad is not None):
            return pairs
        made = self._reduced(pairs, distinct)
        means.update(_tensor(grad) for grad, _ in made if grad is not None)
        return made

    def _reduced(self, pairs: GradsAndVars, distinct: bool) -> GradsAndVars:
        if self._dense:
            pairs = [(_as_dense(grad, var), var) for grad, var in pairs]
        found: dict[int, Any] = {}
        dense = {i: g for i, (g, _) in enumerate(pairs) if isinstance(g, Tensor)}
        sparse = {i: g for i, (g, _) in enumerate(pairs) if isinstance(g, IndexedSlices)}
        for bucket in _buckets({i: dense[i] for i in reversed(dense)}):  # the last layers' come first
            found.update(zip(bucket, _packed([dense[i] for i in bucket], self._group.mean), strict=True))
        found.update(self._gathered(sparse, distinct))
        return [(found.get(i), var) for i, (_, var) in enumerate(pairs)]

    def _gathered(self, sparse: dict[int, IndexedSlices], distinct: bool) -> dict[int, IndexedSlices]:
        found: dict[int, IndexedSlices] = {}
        share = 1.0 / self._group.size
        for kind in gathered_rows.KINDS:
            mine = {i: g for i, g in sparse.items() if gathered_rows.fits(g) and g.values.dtype.base_dtype == kind}
            if mine:
                made = gathered_rows.rows_of_all([*mine.values()], self._group.gather, share, distinct)
                found.update(zip(mine, made, strict=True))
        for i, g in sparse.items():
            if i not in found:
                values, indices = self._group.gather(g.values), self._group.gather(g.indices)
                found[i] = IndexedSlices(values * math.cast(share, values.dtype), indices, g.dense_shape)
        return found


class DistributedOptimizer(Optimizer):
    """An optimizer over the mean of all workers' gradients; each worker wraps its own, in a graph built alike.

    optimizer: computes and applies the gradients. num_replicas: how many workers. timeout_s: after which a step fails
    with DeadlineExceededError naming the workers that did not come; 0 waits. group_key: for several groups at once.
    Small dense gradients of one dtype travel packed, and sparse ones (IndexedSlices) of all tables together: they
    become the rows of all workers, in the workers' order; in `minimize` those of one index are added up, before they
    travel and after. sparse_as_dense adds the whole table instead, which pays for small ones.
    The variables must begin alike on all workers: see `broadcast_global_variables`. Nobody else initializes a worker's
    variables, so a MonitoredTrainingSession is given is_chief=True on every worker, and a checkpoint_dir on one.
    What a step updates besides, such as moving averages of batch normalization, each worker has of its own rows.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        num_replicas: int,
        name: str | None = None,
        timeout_s: float = 0.0,
        group_key: int = _GROUP_KEY,
        sparse_as_dense: bool = False,
    ):
        super().__init__(False, name or f"Distributed{optimizer.get_name()}")
        self._opt, self._num_replicas = optimizer, num_replicas
        self._means, self._minimizes = Means(Group(num_replicas, group_key, timeout_s), sparse_as_dense), False

    def minimize(self, *args: Any, **kwargs: Any) -> Operation:
        """As Optimizer.minimize."""
        self._minimizes = self._only_updates()
        try:
            return super().minimize(*args, **kwargs)
        finally:
            self._minimizes = False

    def _only_updates(self) -> bool:
        """Whether nothing but updates takes the gradients in `minimize`: a class derived from this one, or from that of
        the wrapped optimizer, may take norms first."""
        own = type(self).compute_gradients, type(self).apply_gradients
        mine = DistributedOptimizer.compute_gradients, DistributedOptimizer.apply_gradients
        return own == mine and type(self._opt).apply_gradients is Optimizer.apply_gradients

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        """As Optimizer.compute_gradients, of all workers: the same on each."""
        pairs = self._opt.compute_gradients(*args, **kwargs)
        if self._num_replicas == 1:
            return pairs
        with get_default_graph().name_scope(self._name + "_all_reduce"):
            return self._means(pairs, distinct=self._minimizes)

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """As the wrapped optimizer's, of what this one's compute_gradients gave. Warns where no gradient has been at
        the other workers: those of tf.gradients are of this one's rows alone."""
        pairs = list(grads_and_vars)
        if self._num_replicas > 1 and not _has_travelled(gradient for gradient, _ in pairs):
            _log.warning(
                "%s: none of the gradients of %s is of all workers' rows, so their variables will differ: take them "
                "from this optimizer's compute_gradients, not from tf.gradients",
                self._name, ", ".join(v.op.name for _, v in pairs[:3]) + (" ..." if len(pairs) > 3 else ""),
            )  # fmt: skip
        return self._opt.apply_gradients(pairs, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> list[str]:
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self) -> list[Any]:
        return self._opt.variables()


def _has_travelled(gradients: Iterable[Any]) -> bool:
    """Whether one is computed of what a collective gave; true of none."""
    given = [g for g in gradients if g is not None]
    parts = [part for g in given for part in ((g.values, g.indices) if isinstance(g, IndexedSlices) else (g,))]
    waiting = [part.op for part in parts if isinstance(part, Tensor)]
    seen = set(waiting)
    while waiting:
        op = waiting.pop()
        if op.type.startswith("Collective"):
            return True
        new = {x.op for x in op.inputs} - seen
        seen |= new
        waiting.extend(new)
    return not given


def broadcast_global_variables(
    is_source: bool, num_replicas: int, group_key: int = _GROUP_KEY, timeout_s: float = 0.0, var_list: Any = None
) -> Operation:
    """An op that gives the source worker's variables to all; every worker runs its own at the same time.

    var_list: the same variables in the same order everywhere; the graph's global variables by default.
    """
    group, graph = Group(num_replicas, group_key, timeout_s), get_default_graph()
    updates = []
    for v in variables.global_variables() if var_list is None else var_list:
        if v.dtype.base_dtype == dtypes.string:
            raise InvalidArgumentError(
                f"broadcast_global_variables: {v.op.name!r} holds strings, which no collective carries. Have every "
                "worker fill it alike, and leave it out of var_list (or of the collection GLOBAL_VARIABLES)"
            )
        with graph.name_scope("broadcast_" + v.op.name), graph.colocate_with(v.op):
            given = group.broadcast(v.read_value() if is_source else v._ref(), is_source)
            updates.append(given.op if is_source else state.assign(v, given, validate_shape=False).op)
    return control_flow.group(*updates, name="broadcast_global_variables")


class BroadcastGlobalVariablesHook(SessionRunHook):
    """Gives the source worker's variables to all when a session begins, initialised or restored there."""

    def __init__(self, is_source: bool, num_replicas: int, group_key: int = _GROUP_KEY, timeout_s: float = 0.0):
        self._arguments = is_source, num_replicas, group_key, timeout_s
        self._op: Operation | None = None
        self._graph: Graph | None = None

    def begin(self) -> None:
        graph = get_default_graph()
        if self._op is None or self._graph is not graph:
            self._op, self._graph = broadcast_global_variables(*self._arguments), graph

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._op)


def means_of_active(group: Group, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Of the workers that feed what travels no zeros, as one does that takes part in a step without rows: with them
    goes how many there are. Tensors of sizes that are not known stay as they are."""
    sizes = [_elements(t) for t in tensors]
    if not all(sizes):
        return list(tensors)
    one = array.ones([1], tensors[0].dtype)
    whole = group.sum(array_join.concat([*(array.reshape(t, [-1]) for t in tensors), one], 0))
    *sums, count = array_join.split(whole, [*sizes, 1], 0)
    return [array.reshape(s / count, t.shape.as_list()) for s, t in zip(sums, tensors, strict=True)]


def _carried(x: Tensor, run: Callable[[Tensor], Tensor], as_it_is: Sequence[dtypes.DType] = ()) -> Tensor:
    """What a collective makes of x, of x's own type; as_it_is: the types besides TensorFlow's that it takes."""
    kind = x.dtype.base_dtype
    if kind in as_it_is or kind not in _CAST | _BITCAST:
        return run(x)
    if kind in _CAST:
        return math.cast(run(math.cast(x, _CAST[kind])), kind)
    return math_special.bitcast(run(math_special.bitcast(x, _BITCAST[kind])), kind)


def _tensor(grad: Any) -> Tensor:
    return grad.values if isinstance(grad, IndexedSlices) else grad


def _as_dense(grad: Any, var: Any) -> Any:
    if not isinstance(grad, IndexedSlices):
        return grad
    rows = array.shape(var._ref())[0]
    return math_reduce.unsorted_segment_sum(grad.values, grad.indices, rows)


def _elements(tensor: Tensor) -> int:
    """0 where the static shape does not tell."""
    return shapes.product(tensor._shape) if shapes.fully_known(tensor._shape) else 0


def _buckets(tensors: dict[int, Tensor]) -> list[list[int]]:
    """Which travel together: small ones of one dtype and known size, in their order."""
    done: list[list[int]] = []
    filling: dict[dtypes.DType, tuple[list[int], int]] = {}
    for i, tensor in tensors.items():
        kind, nbytes = tensor.dtype.base_dtype, _elements(tensor) * tensor.dtype.base_dtype.size
        if not nbytes or nbytes >= _ALONE_BYTES:
            done.append([i])
            continue
        bucket, held = filling.get(kind, ([], 0))
        if bucket and held + nbytes > PACK_BYTES:
            done.append(bucket)
            bucket, held = [], 0
        filling[kind] = [*bucket, i], held + nbytes
    return done + [bucket for bucket, _ in filling.values()]


def _packed(tensors: Sequence[Tensor], reduce: Callable[[Tensor], Tensor]) -> list[Tensor]:
    if len(tensors) == 1:
        return [reduce(tensors[0])]
    whole = reduce(array_join.concat([array.reshape(t, [-1]) for t in tensors], 0))
    parts = array_join.split(whole, [_elements(t) for t in tensors], 0)
    return [array.reshape(p, t.shape.as_list()) for p, t in zip(parts, tensors, strict=True)]
