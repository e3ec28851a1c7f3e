"""Known: what a model is fed and what it gives, of either way to call it, in training or not; and what layers inside
add to its losses, updates, metrics and states."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework import nest
from sparkflow.framework.graph import Tensor
from sparkflow.keras import backend
from sparkflow.keras.calls import once
from sparkflow.keras.compiled import Compiled
from sparkflow.keras.metric import Mean, Metric
from sparkflow.ops import array


class Known:
    """The half of `training.Trained` that knows tensors."""

    _ends: Any
    _compiled: Compiled | None = None
    _compile_arguments: dict[str, Any] | None = None
    _fed: list[Tensor] | None = None
    _fed_names: list[str]
    updates: list[Any]
    losses: list[Any]
    trainable_weights: list[Any]
    name: str
    inputs: Any
    outputs: Any
    input_names: Any
    output_names: Any

    def _input_tensors(self) -> list[Tensor]:
        return self._fed if self._fed is not None else self.inputs

    def _input_names(self) -> list[str]:
        if self._fed is not None:
            return list(self._fed_names)
        return self.input_names

    def _output_tensors(self) -> list[Tensor] | None:
        if self._ends is not None:
            return self.outputs
        return getattr(self, "_found", {}).get(False)

    def _output_names(self) -> list[str]:
        if self._ends is not None:
            return self.output_names
        return [f"output_{i + 1}" for i in range(len(self._output_tensors() or ()))]

    def _know_inputs(self, x: Any) -> None:
        """Placeholders of the kind of x, and what the model makes of them, for a model that was never told."""
        if self._ends is not None or self._fed is not None:
            return
        names = list(x) if isinstance(x, dict) else None
        several = x.values() if isinstance(x, dict) else x if isinstance(x, (list, tuple)) else [x]
        values = [np.asarray(v) for v in several]
        if isinstance(x, (list, tuple)) and x and np.isscalar(x[0]):
            values = [np.asarray(x)]
        self._fed_names = names or [f"input_{i + 1}" for i in range(len(values))]
        made = []
        for name, v in zip(self._fed_names, values):
            kind = backend.floatx() if v.dtype.kind == "f" else v.dtype
            made.append(array.placeholder(kind, [None, *(v.shape[1:] or (1,))], name))
        self._fed = made
        given: Any = dict(zip(names, made)) if names else made if isinstance(x, (list, tuple)) else made[0]
        self._given_inputs = made[0] if isinstance(x, (list, tuple)) and len(made) == 1 else given
        self._found: dict[bool, list[Tensor]] = {}
        self._outputs_for(False)
        if self._compile_arguments is not None:
            self._compiled = Compiled(self, self._compile_arguments)

    def _outputs_for(self, training: bool) -> list[Tensor]:
        """Of a class, each way is built by itself, so that its `call` may ask `if training`."""
        if self._ends is not None:
            return self.outputs
        if training not in self._found:
            before = len(self.updates), len(self.losses)
            call: Any = self
            out = call(self._given_inputs, training=training)
            self._found[training] = nest.flatten(out)
            self._made_since = getattr(self, "_made_since", {})
            self._made_since[training] = self.updates[before[0] :], self.losses[before[1] :]
        return self._found[training]

    def _updates_for(self, training: bool) -> list[Any]:
        return once([u for u in self._since(training, 0, self.updates) if u is not None])

    def _losses_for(self, training: bool) -> list[Any]:
        return once(self._since(training, 1, self.losses))

    def _since(self, training: bool, which: int, everything: list[Any]) -> list[Any]:
        """Of one way to call the model: without what the other way made."""
        other = {id(v) for v in getattr(self, "_made_since", {}).get(not training, ((), ()))[which]}
        own = {id(v) for v in getattr(self, "_made_since", {}).get(training, ((), ()))[which]}
        return [v for v in everything if id(v) not in other or id(v) in own]

    def _state_updates(self) -> list[Any]:
        """Of layers that keep states from batch to batch."""
        keeping = [layer for layer in self._everything() if getattr(layer, "_keeps_states", False)]
        return [u for layer in keeping for u in layer._state_updates]

    def _everything(self) -> list[Any]:
        found: list[Any] = []
        todo: list[Any] = [self]
        while todo:
            layer = todo.pop()
            found.append(layer)
            todo += layer._children() if hasattr(layer, "_children") else []
        return once(found)

    def _trained_names(self) -> tuple[str, ...]:
        return tuple(v.op.name for v in self.trainable_weights)

    def reset_states(self) -> None:
        """The states of its stateful layers."""
        for layer in self._everything():
            if layer is not self and getattr(layer, "_keeps_states", False):
                layer.reset_states()

    # ------------------------------------------------------------------ metrics

    def add_metric(self, value: Any, aggregation: str | None = None, name: str | None = None) -> None:
        """A tensor for the logs of fit and evaluate: aggregation "mean" over batches, or None of a Metric's result."""
        metric = getattr(value, "_metric", None)
        if metric is None:
            if name is None or aggregation != "mean":
                raise ValueError("add_metric of a tensor takes a name and aggregation='mean'")
            metric = Mean(name)
            value = metric(value)
        elif name:
            metric._name = name
        self.__dict__.setdefault("_extra_metrics", []).append((metric, value))

    def _added(self) -> list[tuple[Metric, Tensor]]:
        return [pair for layer in self._everything() for pair in getattr(layer, "_extra_metrics", ())]

    def _added_metrics(self) -> list[Metric]:
        return once([m for m, _ in self._added()])

    def _metric_tensors(self, training: bool) -> list[Tensor]:
        last = {id(m): v for m, v in self._added()}
        return [last[id(m)] for m in self._added_metrics()]
