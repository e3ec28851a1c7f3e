"""Optimizer: what Keras' optimizers share: factors and slots as variables, decay, clipping, dense and sparse steps."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.gradients import gradients
from sparkflow.keras import backend
from sparkflow.keras.learning_rates import LearningRateSchedule
from sparkflow.ops import (
    array,
    array_select,
    array_slice,
    clip,
    control_flow,
    init_ops,
    math,
    math_reduce,
    operators,  # noqa: F401 - x + y on tensors
    state,
)
from sparkflow.ops.variables import Variable
from sparkflow.train.optimizer import Optimizer as TrainOptimizer

Slots = dict[str, Any]
_CLIPS = ("clipnorm", "clipvalue", "global_clipnorm")


class Optimizer:
    """The base of tf.keras.optimizers' classes.

    A subclass says `_hypers`, the names of its factors; `_slot_names`; and `_step(grad, slots, factors)`, which gives
    what is subtracted from the variable, and the slots after. `_sparse`: what a gradient of some rows changes: those
    "rows", those rows while slots "decays" everywhere, or all, as the "dense" gradient does.
    Further arguments of all: lr (the old name of learning_rate), decay, clipnorm, clipvalue, global_clipnorm.
    """

    _hypers: tuple[str, ...] = ("learning_rate",)
    _slot_names: Sequence[str] = ()
    _sparse = "rows"
    _rate_decays = True

    def __init__(self, name: str, hypers: dict[str, Any], kwargs: dict[str, Any], epsilon: float | None = 1e-7):
        unknown = sorted(set(kwargs) - {"lr", "decay", *_CLIPS})
        if unknown:
            raise TypeError(f"Unexpected keyword argument passed to optimizer: {', '.join(unknown)}")
        self._name = name
        self._starts: dict[str, float] = {}
        self._clips = {k: kwargs[k] for k in _CLIPS if kwargs.get(k) is not None}
        for key, value in self._clips.items():
            setattr(self, key, value)
            if value < 0:
                raise ValueError(f"Expected {key} >= 0, received: {value}")
        self.epsilon = backend.epsilon() if epsilon is None else epsilon
        decay = kwargs.get("decay", 0.0)
        if isinstance(decay, (int, float)) and decay < 0:
            raise ValueError(f"decay cannot be less than 0: {decay}")
        self._values = {**hypers, "decay": decay}
        self._values["learning_rate"] = kwargs.get("lr", hypers["learning_rate"])
        self._forget()

    def _forget(self) -> None:
        self._graph: Graph | None = None
        self._made: dict[str, Variable] = {}  # factors
        self._slots: dict[tuple[str, str], Variable] = {}  # name of the slot, of its variable
        self._further: dict[str, Variable] = {}
        self._iterations: Variable | None = None

    def _here(self) -> None:
        """Variables of another graph are none of this one's."""
        if self._graph is not get_default_graph():
            if self._graph is not None:
                self._forget()
            self._graph = get_default_graph()

    # ------------------------------------------------------------------ factors

    def __getattr__(self, name: str) -> Any:
        key = "learning_rate" if name == "lr" else name
        if not name.startswith("_") and key in self.__dict__.get("_values", ()):
            return self._hyper(key)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        key = "learning_rate" if name == "lr" else name
        if key not in self.__dict__.get("_values", ()):
            object.__setattr__(self, name, value)
        elif key in self._made and not callable(value):
            backend.set_value(self._made[key], value)
        else:
            self._values[key] = value

    def _hyper(self, key: str) -> Any:
        """The variable of a factor; what was given where that is a schedule, a tensor or a function."""
        self._here()
        value = self._values[key]
        if isinstance(value, (Tensor, Variable, LearningRateSchedule)) or callable(value):
            return value
        if key not in self._made:
            self._made[key] = self._variable(key, (), float(value))
        return self._made[key]

    def _variable(self, name: str, shape: Any, start: Any, dtype: Any = "float32") -> Variable:
        graph = get_default_graph()
        with graph.control_dependencies(None):
            made = Variable(
                lambda: init_ops.constant_initializer(start)(shape, dtype=dtype), trainable=False,
                name=name, dtype=dtype,
            )  # fmt: skip
        return backend.tracked(made)

    def _shared(self, name: str, start: Any, dtype: Any) -> Variable:
        if name not in self._further:
            self._further[name] = self._variable(name, (), start, dtype.base_dtype)
        return self._further[name]

    @property
    def iterations(self) -> Variable:
        """How many steps were taken."""
        self._here()
        if self._iterations is None:
            self._iterations = self._variable("iter", (), 0, "int64")
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        self._here()
        if self._iterations is not None:
            raise RuntimeError("Cannot set `iterations` to a new Variable after the Optimizer's weights were made")
        self._iterations = variable

    def _factors(self, kind: Any) -> Slots:
        """Of one train op, in one float type."""
        step = math.cast(self.iterations.value(), kind)
        f: Slots = {}
        for key in (*self._hypers, "decay"):
            value = self._hyper(key)
            if isinstance(value, LearningRateSchedule):
                value = value(step)
            elif callable(value) and not isinstance(value, (Tensor, Variable)):
                value = value()
            f[key] = math.cast(convert_to_tensor(value), kind)
        f["lr"] = f["learning_rate"]
        decay = self._values["decay"]
        if self._rate_decays and (not isinstance(decay, (int, float)) or decay > 0):
            f["lr"] = f["lr"] / (1.0 + f["decay"] * step)
        f["epsilon"] = math.cast(convert_to_tensor(self.epsilon, dtype="float32"), kind)
        return {**f, **self._more_factors(f, step + 1.0), **f}

    def _more_factors(self, f: Slots, step: Tensor) -> Slots:
        return {}

    def _end(self, f: Slots) -> list[Any]:
        """Ops after all updates."""
        return []

    # ------------------------------------------------------------------ steps

    def get_gradients(self, loss: Any, params: Sequence[Any]) -> list[Any]:
        """Clipped as the optimizer says. Raises ValueError where one of params has none."""
        grads = gradients(loss, [v._ref() for v in params])
        for grad, var in zip(grads, params):
            if grad is None:
                raise ValueError(
                    f"Variable {var.name} has `None` for gradient. Please make sure that all of your ops have a "
                    "gradient defined (i.e. are differentiable)."
                )
        return self._clipped(grads)

    def _clipped(self, grads: list[Any]) -> list[Any]:
        if "clipnorm" in self._clips:
            grads = [g if g is None else clip.clip_by_norm(g, self._clips["clipnorm"]) for g in grads]
        if "global_clipnorm" in self._clips:
            grads = list(clip.clip_by_global_norm(grads, self._clips["global_clipnorm"])[0])
        if "clipvalue" in self._clips:
            most = self._clips["clipvalue"]
            grads = [g if g is None else clip.clip_by_value(g, -most, most) for g in grads]
        return grads

    def get_updates(self, loss: Any, params: Sequence[Any]) -> list[Operation]:
        """The op of one step, in a list."""
        return [self.apply_gradients(zip(self.get_gradients(loss, params), params))]

    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None) -> Operation:
        """An op that takes one step. loss: a tensor, or a function that makes it. var_list may be a function too."""
        loss = loss() if callable(loss) else loss
        params = list(var_list() if callable(var_list) else var_list)
        grads = gradients(loss, [v._ref() for v in params], grad_ys=grad_loss)
        return self.apply_gradients(zip(self._clipped(grads), params), name)

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Operation:
        """An op that updates each variable that has a gradient, and adds 1 to `iterations`. Raises ValueError where
        none has."""
        given = list(grads_and_vars)
        pairs = [(g, v) for g, v in given if g is not None]
        if not pairs:
            raise ValueError(f"No gradients provided for any variable: {[v.name for _, v in given]}.")
        self._here()
        graph = get_default_graph()
        with _scope(graph, name or self._name):
            step = self.iterations
            for slot, var in self._slot_order([v for _, v in pairs]):
                self._slot(slot, var)
            factors: dict[Any, Slots] = {}
            for _, var in pairs:
                kind = var.dtype.base_dtype
                if kind not in factors:
                    factors[kind] = self._factors(kind)
            updates = [self._update(grad, var, factors[var.dtype.base_dtype]) for grad, var in pairs]
            with graph.control_dependencies(updates):
                ends = [e for f in factors.values() for e in self._end(f)]
                return control_flow.group(*updates, *ends, state.assign_add(step, 1))

    def _update(self, grad: Any, var: Any, f: Slots) -> Operation:
        graph = get_default_graph()
        with graph.name_scope(f"{self._name}/update_{var.op.name}"):
            if isinstance(grad, IndexedSlices):
                done = self._apply_sparse(_without_repeats(grad), var, f)
            else:
                done = self._apply_dense(grad, var, f)
            if var.constraint is None:
                return done
            with graph.control_dependencies([done]):
                return var.assign(var.constraint(var.read_value())).op

    def _apply_dense(self, grad: Tensor, var: Any, f: Slots) -> Operation:
        slots = {name: self.get_slot(var, name) for name in self._slot_names}
        before = {name: slot.value() for name, slot in slots.items()} | {"var": var.value()}
        step, after = self._step(grad, before, f)
        with get_default_graph().control_dependencies([step, *after.values()]):
            moved = [state.assign(slots[name], value) for name, value in after.items()]
            return control_flow.group(*moved, state.assign_sub(var, step))

    def _apply_sparse(self, grad: IndexedSlices, var: Any, f: Slots) -> Operation:
        if self._sparse == "dense":
            whole = math_reduce.unsorted_segment_sum(grad.values, grad.indices, array.shape(var.value())[0])
            return self._apply_dense(whole, var, f)
        rows = grad.indices
        slots = {name: self.get_slot(var, name) for name in self._slot_names}
        before = {name: array_slice.gather(v, rows) for name, v in {**slots, "var": var}.items()}
        step, after = self._step(grad.values, before, f)
        graph = get_default_graph()
        with graph.control_dependencies([step, *after.values()]):
            decayed: list[Any] = []
            if self._sparse == "decays":
                decayed = [state.assign(slots[n], slots[n].value() * self._decay(n, f)) for n in after]
            with graph.control_dependencies(decayed):
                moved = [state.scatter_update(slots[n], rows, value) for n, value in after.items()]
                return control_flow.group(*moved, state.scatter_sub(var, rows, step))

    def _decay(self, slot: str, f: Slots) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say how its slots decay")

    def _step(self, grad: Tensor, slots: Slots, f: Slots) -> tuple[Tensor, Slots]:
        raise NotImplementedError(f"{type(self).__name__} does not say what a step is: define _step")

    # ------------------------------------------------------------------ what it keeps

    def _slot_order(self, params: list[Any]) -> list[tuple[str, Any]]:
        return [(slot, var) for slot in self._slot_names for var in params]

    def _slot(self, slot: str, var: Any) -> Variable:
        key = (slot, var.op.name)
        if key not in self._slots:
            with get_default_graph().colocate_with(var.op):
                name = f"{var.op.name}/{slot}"
                self._slots[key] = self._variable(name, var._shape, self._starts.get(slot, 0.0), var.dtype.base_dtype)
        return self._slots[key]

    def get_slot(self, var: Any, slot_name: str) -> Variable:
        return self._slots[slot_name, var.op.name]

    def get_slot_names(self) -> list[str]:
        return list(self._slot_names)

    @property
    def weights(self) -> list[Variable]:
        """The count of steps, then the slots."""
        first = [] if self._iterations is None else [self._iterations]
        return [*first, *self._further.values(), *self._slots.values()]

    def variables(self) -> list[Variable]:
        return self.weights

    def get_weights(self) -> list[np.ndarray]:
        return backend.batch_get_value(self.weights)

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Raises ValueError where their count is another."""
        if len(weights) != len(self.weights):
            raise ValueError(f"{self._name} has {len(self.weights)} weights, set_weights was given {len(weights)}")
        backend.batch_set_value(list(zip(self.weights, weights)))

    def get_config(self) -> dict[str, Any]:
        config: dict[str, Any] = {"name": self._name, **self._clips}
        for key in (*self._hypers, "decay"):
            value = backend.get_value(self._made[key]) if key in self._made else self._values[key]
            config[key] = value if isinstance(value, (LearningRateSchedule, int)) else float(value)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**config)


class TFOptimizer(Optimizer):
    """A tf.train optimizer as Keras' models take it."""

    def __init__(self, optimizer: TrainOptimizer, iterations: Any = None):
        self.optimizer = optimizer
        super().__init__(type(optimizer).__name__, {"learning_rate": 0.0}, {})
        self._values.clear()
        self._iterations = iterations

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Operation:
        self._here()
        done = self.optimizer.apply_gradients(list(grads_and_vars), self.iterations, name)
        for v in self.optimizer.variables():
            backend.tracked(v)
        return done

    def get_slot(self, var: Any, slot_name: str) -> Any:
        return self.optimizer.get_slot(var, slot_name)

    @property
    def weights(self) -> list[Variable]:
        return [*([] if self._iterations is None else [self._iterations]), *self.optimizer.variables()]

    def get_config(self) -> dict[str, Any]:
        raise NotImplementedError(f"{self._name} is a tf.train optimizer: it has no config to be made anew from")


def _scope(graph: Graph, name: str) -> Any:
    """A model's train function has named the scope already."""
    inside = graph._thread.name_stack.rstrip("/").endswith(f"training/{name}")
    return nullcontext() if inside else graph.name_scope(f"{name}/")


def _without_repeats(grad: IndexedSlices) -> IndexedSlices:
    rows, places = array_select.unique(grad.indices)
    summed = math_reduce.unsorted_segment_sum(grad.values, places, array.shape(rows)[0])
    return IndexedSlices(summed, rows, grad.dense_shape)


def named(kinds: dict[str, Any], identifier: Any) -> Any:
    found = kinds.get(identifier.lower()) if isinstance(identifier, str) else None
    if found is None:
        raise ValueError(f"Could not interpret optimizer identifier: {identifier!r}; it is one of {', '.join(kinds)}")
    return found
