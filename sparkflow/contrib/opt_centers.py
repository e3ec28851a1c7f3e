"""What optimizers share whose workers train copies of their own, beside variables on servers that all have in common.

A worker's copies are the trainable variables: of its own device, and of the collection of local variables, so that they
are neither saved nor waited for by others. Each has a *center* of the same shape, called global_center_variable/<name>,
which is where the device scope puts variables, and which is saved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, control_flow_cond, math, state, variables
from sparkflow.ops.partitioned_variables import PartitionedVariable
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer
from sparkflow.train.wrapped_optimizer import WrappedOptimizer

CENTER, GLOBAL_STEP = "global_center_variable", "global_step"
_LOCAL = [GraphKeys.LOCAL_VARIABLES]


def parts(variable: Any) -> list[Variable]:
    """A variable, or those that a partitioned one is made of."""
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


class CenterGetter:
    """A custom_getter that makes a worker's copies of trainable variables, and their centers. worker_device: the
    worker's own, as "/job:worker/task:1"."""

    def __init__(self, worker_device: str):
        self._worker_device = worker_device
        self._wholes: list[tuple[Any, Any]] = []  # what get_variable gave, and its center
        self._centers: dict[Variable, Variable] = {}

    def __call__(
        self, getter: Callable[..., Any], name: str, trainable: Any = None, collections: Any = None, **kwargs: Any
    ) -> Any:
        if not trainable:
            on_worker = GraphKeys.LOCAL_VARIABLES in (collections or ())
            with get_default_graph().device(self._worker_device if on_worker else ""):
                return getter(name, trainable=trainable, collections=collections, **kwargs)
        own = self._make_own(getter, name, trainable=True, **kwargs)
        center = getter(f"{CENTER}/{name}", trainable=False, collections=[GraphKeys.GLOBAL_VARIABLES], **kwargs)
        self._wholes.append((own, center))
        self._centers |= zip(parts(own), parts(center), strict=True)
        return own

    def _make_own(self, getter: Callable[..., Any], name: str, **kwargs: Any) -> Any:
        with get_default_graph().device(self._worker_device):
            return getter(name, collections=_LOCAL, **kwargs)

    def center_of(self, var: Any) -> Variable:
        """Raises ValueError where the variable was made without this getter."""
        if var not in self._centers:
            raise ValueError(
                f"{var.name} has no {CENTER}: make it by tf.get_variable below tf.variable_scope(..., "
                f"custom_getter=...), with the {type(self).__name__} that the optimizer has"
            )
        return self._centers[var]


class CenterOptimizer(WrappedOptimizer):
    """Applies gradients to this worker's copies, by another optimizer whose slots are the worker's too, and every
    `period` steps does what a subclass says (`_meet`)."""

    def __init__(self, opt: Optimizer, getter: CenterGetter, period: int, name: str):
        super().__init__(opt, name)
        if period < 1:
            raise ValueError(f"{name}: the steps between two exchanges must be 1 or more, got {period}")
        self._getter, self._period = getter, period
        graph = get_default_graph()
        with graph.device(None), graph.device(getter._worker_device):
            self._local_step = Variable(constant(0), trainable=False, collections=_LOCAL, name="local_step")

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Operation:
        graph, pairs = get_default_graph(), list(grads_and_vars)
        own = [var for grad, var in pairs if grad is not None]
        centers = [self._getter.center_of(var) for var in own]
        before = set(variables.global_variables())
        update = self._opt.apply_gradients(pairs)
        _make_local(var for var in variables.global_variables() if var not in before)
        with graph.name_scope(name or self._name) as scope:
            with graph.control_dependencies([update]), graph.colocate_with(self._local_step.op):
                count = state.assign_add(self._local_step, constant(1))
                due = math.equal(math.mod(count, self._period), 0)
            meet = self._prepare_to_meet(own, centers, global_step, scope)
            return _op(control_flow_cond.cond(due, meet, control_flow.no_op))

    def _prepare_to_meet(
        self, own: Sequence[Variable], centers: Sequence[Variable], global_step: Any, scope: str
    ) -> Callable[[], Operation]:
        """What makes the nodes of an exchange, within a branch."""
        raise NotImplementedError(f"{type(self).__name__} does not say how workers meet: define _prepare_to_meet")

    def _trained(self) -> tuple[list[Variable], list[Variable]]:
        own = [var for var in variables.trainable_variables() if var in self._getter._centers]
        if not own:
            raise ValueError(f"{self._name}: no trainable variable was made by its custom_getter")
        return own, [self._getter.center_of(var) for var in own]


def take_values(own: Sequence[Variable], values: Iterable[Tensor]) -> Operation:
    """Assign to each copy, on its own device."""
    return control_flow.group(*[state.assign(var, value) for var, value in zip(own, values)])


def _make_local(made: Iterable[Variable]) -> None:
    """What an optimizer made for a worker's copies is that worker's as well."""
    graph = get_default_graph()
    for var in list(made):
        graph.get_collection_ref(GraphKeys.GLOBAL_VARIABLES).remove(var)
        graph.add_to_collection(GraphKeys.LOCAL_VARIABLES, var)


def _op(result: Any) -> Operation:
    return result if isinstance(result, Operation) else result.op
