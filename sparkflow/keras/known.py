"""Known: what a model is fed and what it gives, of either way to call it, in training or not; and what layers inside
add to its losses, updates, metrics and states."""

from __future__ import annotations

from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor
from sparkflow.keras import backend
from sparkflow.keras.calls import is_shape, once
from sparkflow.keras.compiled import Compiled
from sparkflow.keras.feeding import as_array, is_written_out
from sparkflow.keras.metric import Metric
from sparkflow.ops import array


class Known:
    """The half of `training.Trained` that knows tensors."""

    _ends: Any
    _compiled: Compiled | None = None
    _compile_arguments: dict[str, Any] | None = None
    _fed: list[Tensor] | None = None
    _fed_names: list[str]
    _made_since: dict[bool, list[list[Any]]] = {}  # noqa: RUF012 - of each way: updates, losses, metrics
    built: bool
    _nodes: list[Any]
    _is_called = False
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

    def _build_of(self, input_shape: Any) -> None:
        self._is_called = True  # its layers are built by its call
        try:
            self.build(input_shape)
        finally:
            self._is_called = False

    def build(self, input_shape: Any) -> None:
        """Its layers' variables for numbers of that shape, batch included; a list or dictionary of them for several."""
        if self.built or self._is_called:
            return
        shapes = isinstance(input_shape, dict) or (isinstance(input_shape, list) and any(map(is_shape, input_shape)))
        made = lambda size: array.placeholder(backend.floatx(), size, "build_input")  # noqa: E731
        if isinstance(input_shape, dict):
            inputs: Any = {name: made(size) for name, size in input_shape.items()}
        else:
            inputs = [made(size) for size in input_shape] if shapes else made(input_shape)
        self.built = True
        try:
            call: Any = self
            call(inputs)
        except BaseException:
            self.built = False
            raise
        self._nodes.pop()  # nobody's call

    def _know_inputs(self, x: Any) -> None:
        """Placeholders of the kind of x, and what the model makes of them, for a model that was never told."""
        if self._ends is not None or self._fed is not None:
            return
        names = list(x) if isinstance(x, dict) else None
        is_list = isinstance(x, (list, tuple)) and not is_written_out(x)
        several = list(x.values() if isinstance(x, dict) else x if is_list else [x])
        self._fed_names = names or [f"input_{i + 1}" for i in range(len(several))]
        values = [as_array(v, name, "input") for v, name in zip(several, self._fed_names)]
        made = []
        for name, v in zip(self._fed_names, values):
            kind = backend.floatx() if v.dtype.kind == "f" else v.dtype
            made.append(array.placeholder(kind, [None, *(v.shape[1:] or (1,))], name))
        self._fed = made
        self._given_inputs: Any = dict(zip(names, made)) if names else made if len(made) > 1 else made[0]
        self._found: dict[bool, list[Tensor]] = {}
        self._outputs_for(False)
        if self._compile_arguments is not None:
            self._compiled = Compiled(self, self._compile_arguments)

    def _outputs_for(self, training: bool) -> list[Tensor]:
        """Of a class, each way is built by itself, so that its `call` may ask `if training`."""
        if self._ends is not None:
            return self.outputs
        if training not in self._found:
            before = {id(v) for found in self._parts_made() for v in found}
            call: Any = self
            out = call(self._given_inputs, training=training)
            self._found[training] = nest.flatten(out)
            new = [[v for v in found if id(v) not in before] for found in self._parts_made()]
            self._made_since = {**self._made_since, training: new}
        return self._found[training]

    def _parts_made(self) -> list[list[Any]]:
        return [self.updates, self.losses, [v for _, v in self._added()]]

    def _updates_for(self, training: bool) -> list[Any]:
        return self._own_to(training, 0, self.updates)

    def _losses_for(self, training: bool) -> list[Any]:
        return self._own_to(training, 1, self.losses)

    def _own_to(self, training: bool, which: int, everything: list[Any]) -> list[Any]:
        """Without what was made when layers were called on other tensors than the model's inputs, or the other way."""
        fed = {id(x) for x in self._input_tensors()}
        made = {way: {id(v) for v in parts[which]} for way, parts in self._made_since.items()}
        found = []
        for v in once([v for v in everything if v is not None]):
            needs = placeholders(v)
            of_other_way = id(v) in made.get(not training, ()) and id(v) not in made.get(training, ())
            if all(id(x) in fed for x in needs) and not (needs and of_other_way):
                found.append(v)
        return found

    def _state_updates(self) -> list[Any]:
        """Of layers that keep states from batch to batch."""
        keeping = [layer for layer in self._everything() if getattr(layer, "_keeps_states", False)]
        return self._own_to(False, 0, [u for layer in keeping for u in layer._state_updates])

    def _everything(self) -> list[Any]:
        found: list[Any] = []
        todo: list[Any] = [self]
        while todo:
            layer = todo.pop()
            found.append(layer)
            todo += layer._children() if hasattr(layer, "_children") else []
        return once(found)

    def reset_states(self) -> None:
        """The states of its stateful layers."""
        for layer in self._everything():
            if layer is not self and getattr(layer, "_keeps_states", False):
                layer.reset_states()

    # ------------------------------------------------------------------ metrics

    def _added(self) -> list[tuple[Metric, Tensor]]:
        return [pair for layer in self._everything() for pair in getattr(layer, "_extra_metrics", ())]

    def _added_metrics(self) -> list[Metric]:
        return once([m for m, _ in self._added()])

    def _metric_tensors(self, training: bool) -> list[Tensor]:
        """One a metric, of this model's inputs; what it has so far where only the other way measures it."""
        added = self._added()
        own = {id(v) for v in self._own_to(training, 2, [v for _, v in added])}
        last = {id(m): v for m, v in added if id(v) in own}
        return [last[id(m)] if id(m) in last else convert_to_tensor(m.result()) for m in self._added_metrics()]


def placeholders(value: Any) -> list[Tensor]:
    """The tensors that have to be fed for it."""
    found, todo = [], [getattr(value, "op", value)]
    seen = set(todo)
    while todo:
        op = todo.pop()
        if op.type == "Placeholder":
            found.append(op.outputs[0])
        for before in (*(x.op for x in op.inputs), *op.control_inputs):
            if before not in seen:
                seen.add(before)
                todo.append(before)
    return found
