"""Averages that follow what they are averages of slowly: of variables (ExponentialMovingAverage), and of any tensor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, init_ops, math, state, variables
from sparkflow.ops.variable_scope import get_variable, get_variable_scope, variable_scope
from sparkflow.ops.variables import Variable
from sparkflow.train import slots


class ExponentialMovingAverage:
    """shadow -= (1 - decay) * (shadow - variable), at every run of the op that `apply` returns.

    decay: near 1. num_updates: a count of updates, with which early averages move faster: the decay then is
    min(decay, (1 + num_updates) / (10 + num_updates)). zero_debias: averages of tensors, which begin at 0, are divided
    by 1 - decay^n.
    """

    def __init__(
        self,
        decay: Any,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ):
        self._decay, self._num_updates, self._zero_debias, self._name = decay, num_updates, zero_debias, name
        self._averages: dict[Any, Variable] = {}

    @property
    def name(self) -> str:
        return self._name

    def apply(self, var_list: Iterable[Any] | None = None) -> Any:
        """An op that moves the averages of `var_list` (all trainable variables); makes their shadow variables.

        A variable's shadow starts as its initial value, a tensor's as 0. Raises TypeError on what is no float,
        ValueError where a moving average of it exists already.
        """
        var_list = list(variables.trainable_variables() if var_list is None else var_list)
        for v in var_list:
            if not v.dtype.base_dtype.is_floating:
                raise TypeError(f"The variables must be half, float, or double: {v.name} is {v.dtype.base_dtype.name}")
            if v in self._averages:
                raise ValueError(f"Moving average already computed for: {v.name}")
            self._averages[v] = self._shadow(v)
        with get_default_graph().name_scope(self._name) as scope:
            updates = [self._move(v, self._averages[v]) for v in var_list]
            return control_flow.group(*updates, name=scope)

    def _shadow(self, v: Any) -> Variable:
        if isinstance(v, Variable):
            shadow = slots.create_slot(v, v.initialized_value(), self._name)
            get_default_graph().add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, v)
            return shadow
        return slots.create_zeros_slot(v, self._name)

    def _move(self, v: Any, shadow: Variable) -> Any:
        if self._zero_debias and not isinstance(v, Variable):
            return assign_moving_average(shadow, v, self._decay_now())
        rate = math.subtract(1.0, self._decay_now())
        rate = math.cast(rate, shadow.dtype.base_dtype)
        now = v.read_value() if isinstance(v, Variable) else v  # after the control inputs, such as a training step
        return state.assign_sub(shadow, math.multiply(math.subtract(shadow, now), rate))

    def _decay_now(self) -> Any:
        if self._num_updates is None:
            return self._decay
        n = math.cast(self._num_updates, "float32")
        return math.minimum(self._decay, (1.0 + n) / (10.0 + n))

    def average(self, var: Any) -> Any:
        """The shadow variable of `var`; None when it has none."""
        return self._averages.get(var)

    def average_name(self, var: Any) -> str:
        """The name under which the average of `var` is saved."""
        if var in self._averages:
            return self._averages[var].op.name
        return get_default_graph().unique_name(f"{var.op.name}/{self._name}", mark_as_used=False)

    def variables_to_restore(self, moving_avg_variables: Iterable[Any] | None = None) -> dict[str, Any]:
        """{name in the checkpoint: variable}: variables that have an average by its name, all others by their own."""
        if moving_avg_variables is None:
            moving_avg_variables = [*variables.trainable_variables(), *variables.moving_average_variables()]
        averaged = dict.fromkeys(moving_avg_variables)
        found = {self.average_name(v): v for v in averaged}
        others = {v.op.name: v for v in variables.global_variables() if v not in averaged}
        return others | found


def assign_moving_average(
    variable: Any, value: Any, decay: Any, zero_debias: bool = True, name: str | None = None
) -> Any:
    """The variable's reference after variable = variable * decay + value * (1 - decay).

    zero_debias: the average is kept beside it, in <name>/biased, and divided by 1 - decay^n, as it began with 0
    (Kingma and Ba 2015); <name>/local_step has n. Otherwise the variable should begin with a first value.
    """
    with get_default_graph().name_scope(name or "AssignMovingAvg") as scope:
        kind = variable.dtype.base_dtype
        rate = math.cast(1.0 - decay, kind)
        if not zero_debias:
            return state.assign_sub(variable, math.multiply(math.subtract(variable, value), rate), name=scope)
        biased, count = _beside(variable)
        moved = state.assign_sub(biased, math.multiply(math.subtract(biased, value), rate))
        counted = state.assign_add(count, math.cast(1, kind))
        return state.assign(variable, math.divide(moved, 1.0 - math.pow(1.0 - rate, counted)), name=scope)


def _beside(variable: Any) -> tuple[Variable, Variable]:
    """(biased, local_step), in a scope with the variable's name, made anew or, in a scope that reuses, shared."""
    graph = get_default_graph()
    with variable_scope(variable.op.name), graph.colocate_with(variable.op), graph.control_dependencies(None):
        return tuple(
            get_variable(_free(name), shape, variable.dtype.base_dtype, init_ops.zeros_initializer(), trainable=False)
            for name, shape in (("biased", variable.shape.as_list()), ("local_step", []))
        )


def _free(name: str) -> str:
    scope = get_variable_scope()
    taken = {v.op.name for v in scope.global_variables()}
    if scope.reuse is True or f"{scope.name}/{name}" not in taken:
        return name
    number = 1
    while f"{scope.name}/{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def weighted_moving_average(
    value: Any, decay: Any, weight: Any, truediv: bool = True, collections: Iterable[str] | None = None,
    name: str | None = None,
) -> Any:  # fmt: skip
    """moving average of value * weight, over that of weight; both are variables of the scope `name`."""
    kept = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
    with variable_scope(name, "WeightedMovingAvg"):
        top, bottom = (
            get_variable(
                label, like.shape.as_list(), like.dtype, init_ops.zeros_initializer(), trainable=False, collections=kept
            )
            for label, like in (("value_x_weight", value), ("weight", weight))
        )
        moved = assign_moving_average(top, math.multiply(value, weight), decay, zero_debias=False)
        weights = assign_moving_average(bottom, weight, decay, zero_debias=False)
        return (math.truediv if truediv else math.div)(moved, weights)
