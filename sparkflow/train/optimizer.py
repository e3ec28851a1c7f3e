"""Optimizer: compute gradients, keep slots, apply updates. Subclasses say what one update is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.gradients import gradients
from sparkflow.ops import array, array_select, control_flow, math, math_reduce, state, variables
from sparkflow.ops.partitioned_variables import PartitionedVariable
from sparkflow.ops.variables import Variable
from sparkflow.train import slots
from sparkflow.train.strategy import get_strategy
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.collector import paused

GradsAndVars = list[tuple[Any, Any]]
VarKey = tuple[Graph, str]
_VALID_DTYPES = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def _var_key(var: Any) -> VarKey:
    """What stands for a variable in `_slots`; sorted, they are in the order of names."""
    return var.op.graph, var.op.name


class Optimizer:
    """The base of the optimizers.

    A subclass defines `_apply_dense(grad, var)` and `_apply_sparse(grad, var)`, which return the op that updates var
    (in `_apply_sparse` no row repeats), and, as far as it needs them, `_create_slots(var_list)`, `_prepare()` (make
    tensors of its factors) and `_finish(update_ops, name_scope)`. use_locking: updates of a variable take turns.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2

    def __init__(self, use_locking: bool, name: str):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking, self._name = use_locking, name
        self._slots: dict[str, dict[VarKey, Variable]] = {}  # slot name -> primary's key -> slot
        self._non_slot: dict[tuple[str, Graph], Variable] = {}
        self._settings: frozenset[str] = frozenset()  # the attributes that it had before it was first applied

    def get_name(self) -> str:
        return self._name

    # ------------------------------------------------------------------ public steps

    def minimize(
        self,
        loss: Tensor,
        global_step: Variable | None = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """An op that takes one step down the gradient of `loss`, and adds 1 to global_step after it.

        Raises ValueError where no variable has a gradient.
        """
        grads_and_vars = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method, colocate_gradients_with_ops, grad_loss
        )
        if all(grad is None for grad, _ in grads_and_vars):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(v) for _, v in grads_and_vars]} and loss {loss}."
            )
        return self.apply_gradients(grads_and_vars, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> GradsAndVars:
        """[(gradient of loss, variable)]: a Tensor, IndexedSlices, or None where loss does not depend on the variable.

        var_list: the trainable variables of the graph by default; parts stand for a PartitionedVariable.
        gate_gradients: GATE_NONE uses each gradient at once; GATE_OP waits for all of an op, GATE_GRAPH for all.
        """
        if callable(loss):
            raise TypeError("compute_gradients: a function as loss needs eager execution; pass the loss tensor")
        if gate_gradients not in (self.GATE_NONE, self.GATE_OP, self.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH. "
                f"Not {gate_gradients}"
            )
        if var_list is None:
            var_list = variables.trainable_variables()
        var_list = _flat_variables(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        grads = gradients(
            loss,
            [v._ref() for v in var_list],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == self.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == self.GATE_GRAPH:
            grads = control_flow.tuple(grads)
        self._check_dtypes([v for g, v in zip(grads, var_list) if g is not None])
        return list(zip(grads, var_list))

    @paused()
    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Operation:
        """An op that updates each variable by its gradient (pairs without one are left out), then adds 1 to
        global_step."""
        pairs = [(_gradient(grad), var) for grad, var in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        used = get_strategy().reduced((grad, var) for grad, var in pairs if grad is not None)
        if not used:
            raise ValueError(f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.")
        graph = get_default_graph()
        self._settings = self._settings or frozenset(vars(self))
        with graph.control_dependencies(None):
            self._create_slots([var for _, var in used])
        with graph.name_scope(name or self._name) as scope:
            self._prepare()
            updates = [self._update(graph, grad, var) for grad, var in used]
            train_op = self._count(graph, updates, scope, global_step)
        collected = graph.get_collection_ref(GraphKeys.TRAIN_OP)
        if train_op not in collected:
            collected.append(train_op)
        return train_op

    def _update(self, graph: Graph, grad: Any, var: Variable) -> Operation:
        with graph.name_scope("update_" + var.op.name), graph.colocate_with(var.op):
            if isinstance(grad, IndexedSlices):
                if var.constraint is not None:
                    raise RuntimeError(f"Cannot use a constraint function on a sparse variable: {var}")
                return _op(self._apply_sparse_duplicate_indices(grad, var))
            update = _op(self._apply_dense(grad, var))
            if var.constraint is None:
                return update
            with graph.control_dependencies([update]):
                return _op(var.assign(var.constraint(var.read_value()), self._use_locking))

    def _count(self, graph: Graph, updates: list[Operation], scope: str, global_step: Variable | None) -> Operation:
        """The last op: all updates, and after them the new global_step."""
        if global_step is None:
            return self._finish(updates, scope)
        with graph.control_dependencies([self._finish(updates, "update")]), graph.colocate_with(global_step):
            one = convert_to_tensor(1, global_step.dtype.base_dtype, name="value")
            return state.assign_add(global_step, one, name=scope).op

    def __getstate__(self) -> dict[str, Any]:
        """Without what it has made in graphs: a model function that holds it goes to other processes."""
        names = self._settings or vars(self)
        return {k: v for k, v in vars(self).items() if k in names} | {
            "_slots": {},
            "_non_slot": {},
            "_settings": frozenset(),
        }

    # ------------------------------------------------------------------ slots

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot of that name of a variable (of its parts, as a PartitionedVariable); None where there is
        none yet."""
        named = self._slots.get(name)
        if named is None:
            return None
        if isinstance(var, PartitionedVariable):
            parts = [named[_var_key(v)] for v in var]
            return PartitionedVariable(
                f"{var.name}/{self._name}", var._shape, parts[0].dtype, parts, var._get_partitions()
            )
        return named.get(_var_key(var))

    def get_slot_names(self) -> list[str]:
        return sorted(self._slots)

    def variables(self) -> list[Variable]:
        """Everything this optimizer keeps in the current graph, by name."""
        kept = [slot for named in self._slots.values() for slot in named.values()] + list(self._non_slot.values())
        return sorted((v for v in kept if v.graph is get_default_graph()), key=lambda v: v.name)

    def _slot_dict(self, slot_name: str) -> dict[VarKey, Variable]:
        return self._slots.setdefault(slot_name, {})

    def _zeros_slot(self, var: Variable, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if _var_key(var) not in named:
            named[_var_key(var)] = slots.create_zeros_slot(var, op_name)
        return named[_var_key(var)]

    def _get_or_make_slot(self, var: Variable, val: Any, slot_name: str, op_name: str) -> Variable:
        named = self._slot_dict(slot_name)
        if _var_key(var) not in named:
            named[_var_key(var)] = slots.create_slot(var, val, op_name)
        return named[_var_key(var)]

    def _get_or_make_slot_with_initializer(
        self, var: Variable, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Variable:
        named = self._slot_dict(slot_name)
        if _var_key(var) not in named:
            named[_var_key(var)] = slots.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
        return named[_var_key(var)]

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Variable) -> Variable:
        """A variable that all updates share (Adam's beta powers), beside one of them."""
        key = (name, colocate_with.graph)
        if key not in self._non_slot:
            with colocate_with.graph.colocate_with(colocate_with.op):
                self._non_slot[key] = Variable(initial_value, name=name, trainable=False)
        return self._non_slot[key]

    def _get_non_slot_variable(self, name: str, graph: Graph | None = None) -> Variable | None:
        return self._non_slot.get((name, graph or get_default_graph()))

    # ------------------------------------------------------------------ what subclasses define

    def _create_slots(self, var_list: Sequence[Variable]) -> None:
        """Make what is kept for these variables; called each time gradients are applied."""

    def _prepare(self) -> None:
        """Make tensors of the factors, under the name scope of the optimizer."""

    def _apply_dense(self, grad: Tensor, var: Variable) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_dense: it cannot take dense gradients")

    def _apply_sparse(self, grad: IndexedSlices, var: Variable) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not define _apply_sparse: it cannot take IndexedSlices")

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Variable) -> Any:
        """As _apply_sparse, of slices whose rows may repeat: they are summed first, as updates mostly are not
        linear."""
        values, indices = _summed(grad)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _finish(self, update_ops: list[Operation], name_scope: str) -> Operation:
        return control_flow.group(*update_ops, name=name_scope)

    def _valid_dtypes(self) -> tuple[dtypes.DType, ...]:
        return _VALID_DTYPES

    # ------------------------------------------------------------------ small helpers

    def _check_dtypes(self, var_list: Iterable[Variable]) -> None:
        for var in var_list:
            if var.dtype.base_dtype not in self._valid_dtypes():
                allowed = [d.name for d in self._valid_dtypes()]
                raise ValueError(f"Invalid type {var.dtype.name} for {var.name}, expected: {allowed}.")

    @staticmethod
    def _call_if_callable(value: Any) -> Any:
        return value() if callable(value) else value

    @classmethod
    def _tensor(cls, value: Any, name: str) -> Tensor:
        """A factor as a tensor, float32 when it is a Python number; a function gives it anew for each train op."""
        return convert_to_tensor(cls._call_if_callable(value), name=name)


def as_var_type(factor: Tensor, var: Variable) -> Tensor:
    """A factor in the variable's dtype."""
    return math.cast(factor, var.dtype.base_dtype)


def _flat_variables(var_list: Any) -> list[Variable]:
    items = [var_list] if isinstance(var_list, (Variable, PartitionedVariable)) else list(var_list)
    flat = [v for item in items for v in (item if isinstance(item, PartitionedVariable) else [item])]
    for v in flat:
        if not isinstance(v, Variable):
            raise TypeError(f"Argument is not a tf.Variable: {v}")
    return flat


def _gradient(grad: Any) -> Any:
    return grad if grad is None or isinstance(grad, (Tensor, IndexedSlices)) else convert_to_tensor(grad)


def _op(result: Any) -> Operation:
    return result if isinstance(result, Operation) else result.op


def _summed(grad: IndexedSlices) -> tuple[Tensor, Tensor]:
    unique, positions = array_select.unique(grad.indices)
    count = array.shape(unique)[0]
    return math_reduce.unsorted_segment_sum(grad.values, positions, count), unique
