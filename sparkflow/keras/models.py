"""tf.keras.models: Model and Sequential, layers made of layers. What they compute is trained by `fit`, or by a tf.train
optimizer in a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework import nest, shapes
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.keras import backend, configs, saving
from sparkflow.keras.calls import Node, mask_of, once
from sparkflow.keras.engine import Layer
from sparkflow.keras.layers.core import Input, InputLayer
from sparkflow.keras.training import Trained
from sparkflow.ops.variables import Variable

_NOT_KEPT = ("loss", "optimizer", "history")  # of a model's attributes, in checkpoints


class Model(Trained, Layer):
    """Model(inputs, outputs): what lies between tensors made by `Input` and tensors that layers made of them; called on
    others, it is computed of those with the same variables. Or a class with layers as attributes and a `call`.

    Ops between layers are made anew as layers are. Raises ValueError where the outputs need a tensor that is fed but is
    not among the inputs.
    """

    def __init__(self, inputs: Any = None, outputs: Any = None, name: str | None = None, **kwargs: Any):
        if (inputs is None) != (outputs is None):
            raise ValueError("Model takes both inputs and outputs, or neither in a subclass that defines call")
        super().__init__(name=name, **kwargs)
        self._ends: tuple[Any, Any] | None = None
        if inputs is not None:
            self._between(inputs, outputs)

    def _between(self, inputs: Any, outputs: Any) -> None:
        self._ends = (inputs, outputs)
        self._steps, met = _steps(nest.flatten(inputs), nest.flatten(outputs))
        self._layers = _by_depth(self._steps, met, nest.flatten(inputs))
        self.built = True

    # ------------------------------------------------------------------ calling

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:  # type: ignore[override]
        if self._ends is None:
            raise NotImplementedError(
                f"{type(self).__name__} does not say what it computes: define call(inputs), or give inputs and outputs"
            )
        starts = nest.flatten(self._ends[0])
        given = nest.flatten(inputs)
        if len(given) != len(starts):
            raise ValueError(f"Model {self.name} takes {len(starts)} inputs, got {len(given)}")
        masks = nest.flatten(mask) if mask is not None else []
        for x, m in zip(given, masks):
            if m is not None:
                x._keras_mask = m
        return self._computed(dict(zip(starts, given)))

    def _computed(self, now: dict[Tensor, Any], layer_for: Callable[[Any], Any] = lambda layer: layer) -> Any:
        """The outputs where tensors of the model are what `now` says, by layer_for(layer) instead of each layer."""
        for step in self._steps:
            if isinstance(step, Operation):
                _again(step, now)
                continue
            swapped = lambda v: now.get(v, v) if isinstance(v, Tensor) else v  # noqa: E731
            kwargs = {
                key: nest.map_structure(swapped, value)
                for key, value in step.kwargs.items()
                if key not in ("mask", "training")
            }
            said = step.kwargs.get("training")
            if said is not None:
                kwargs["training"] = said
            out = layer_for(step.layer)(
                nest.map_structure(swapped, step.inputs), *nest.map_structure(swapped, step.args), **kwargs
            )
            now.update(zip(nest.flatten(step.outputs), nest.flatten(out)))
        assert self._ends is not None
        return nest.map_structure(lambda y: now.get(y, y), self._ends[1])

    # ------------------------------------------------------------------ configs and files

    def get_config(self) -> dict[str, Any]:
        """Raises NotImplementedError for a class with a `call` of its own."""
        return configs.config_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
        return configs.made_by(cls, config, custom_objects)

    def to_json(self, **kwargs: Any) -> str:
        """What model_from_json makes the model of, without its weights."""
        return json.dumps(configs.plain(self), default=configs.plain, **kwargs)

    def save(
        self, filepath: Any, overwrite: bool = True, include_optimizer: bool = True, save_format: Any = None
    ) -> None:
        saving.save(self, filepath, overwrite, include_optimizer, save_format)

    def save_weights(self, filepath: Any, overwrite: bool = True, save_format: Any = None) -> None:
        saving.save_weights(self, filepath, overwrite, save_format)

    def load_weights(self, filepath: Any, by_name: bool = False, skip_mismatch: bool = False) -> None:
        saving.load_weights(self, filepath, by_name, skip_mismatch)

    def _named_parts(self) -> list[tuple[str, object]] | None:
        """As TensorFlow names what checkpoints of models hold."""
        if self._ends is None and type(self) is not Sequential:
            held = [(k, v) for k, v in sorted(vars(self).items()) if not k.startswith("_") and k not in _NOT_KEPT]
            return [(k, v) for k, v in held if isinstance(v, (Layer, Variable, dict, list, tuple))]
        layers = self.layers
        weighty = [la for la in layers if la.weights]
        named: list[tuple[str, object]] = [(f"layer_with_weights-{i}", la) for i, la in enumerate(weighty)]
        return [*named, *((f"layer-{i}", la) for i, la in enumerate(layers))]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None  # each output has its own already

    def _set_mask(self, inputs: Any, kwargs: dict[str, Any], out: Any) -> None:
        pass

    # ------------------------------------------------------------------ looking at it

    def _children(self) -> list[Any]:
        """Without InputLayers, which hold nothing."""
        found = once([*vars(self).get("_layers", ()), *super()._children()])
        return [layer for layer in found if not isinstance(layer, InputLayer)]

    @property
    def layers(self) -> list[Any]:
        return list(self._layers) if self._ends is not None else self._children()

    @property
    def weights(self) -> list[Any]:
        """Those of its layers, one after the other, then its own."""
        return once([*(v for c in self._children() for v in c.variables), *self._own(True), *self._own(False)])

    variables = weights

    inputs = property(lambda self: None if self._ends is None else nest.flatten(self._ends[0]))
    outputs = property(lambda self: None if self._ends is None else nest.flatten(self._ends[1]))
    input = property(lambda self: self._only_node("input").inputs if self._ends is None else self._ends[0])
    output = property(lambda self: self._only_node("output").outputs if self._ends is None else self._ends[1])
    input_shape = property(lambda self: nest.map_structure(backend.int_shape, self.input))
    output_shape = property(lambda self: nest.map_structure(backend.int_shape, self.output))
    output_names = property(lambda self: [x._keras_history.layer.name for x in self.outputs])
    input_names = property(lambda self: [x._keras_history.layer.name for x in self.inputs])

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        """The layer of that name, or of that place. Raises ValueError where there is none."""
        layers = self.layers
        if index is not None:
            if index >= len(layers):
                raise ValueError(
                    f"Was asked to retrieve layer at index {index} but model has only {len(layers)} layers"
                )
            return layers[index]
        for layer in layers:
            if layer.name == name:
                return layer
        raise ValueError(f"No such layer: {name!r}. Model {self.name} has {', '.join(la.name for la in layers)}")

    def summary(self, line_length: int = 79, positions: Any = None, print_fn: Callable[[str], Any] = print) -> None:
        """Say each layer's name, class, output's shape and count of numbers. Raises ValueError before it is built."""
        if not self.built:
            raise ValueError(
                f"Model {self.name} has not yet been built: call build(input_shape), fit it, or give its first "
                "layer an input_shape"
            )
        widths = (int(line_length * 0.45), int(line_length * 0.33))
        row = lambda a, b, c: print_fn(f"{a[: widths[0] - 1]:{widths[0]}}{b[: widths[1] - 1]:{widths[1]}}{c}")  # noqa: E731
        print_fn(f'Model: "{self.name}"')
        print_fn("_" * line_length)
        row("Layer (type)", "Output Shape", "Param #")
        print_fn("=" * line_length)
        for layer in self.layers:
            nodes = getattr(layer, "_nodes", [])
            shape = nest.map_structure(backend.int_shape, nodes[0].outputs) if nodes else "multiple"
            count = _numbers(layer.variables)
            row(f"{layer.name} ({type(layer).__name__})", str(shape), f"{count}")
        print_fn("=" * line_length)
        print_fn(f"Total params: {_numbers(self.variables):,}")
        print_fn(f"Trainable params: {_numbers(self.trainable_variables):,}")
        print_fn(f"Non-trainable params: {_numbers(self.non_trainable_variables):,}")
        print_fn("_" * line_length)


def _numbers(variables: Sequence[Any]) -> int:
    return sum(shapes.product(v.shape.as_list()) for v in variables)


class Sequential(Model):
    """Layers one behind the other. Where the first says its input_shape, or is an InputLayer, all are built at once."""

    def __init__(self, layers: Sequence[Any] | None = None, name: str | None = None):
        super().__init__(name=name)
        self._layers: list[Any] = []
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Any) -> None:
        """Raises TypeError on what is no layer."""
        if not isinstance(layer, Layer):
            raise TypeError(f"The added layer must be an instance of class Layer, got {layer!r}")
        if not self._layers and self._ends is None:
            if isinstance(layer, InputLayer):
                self._ends = (layer.output, layer.output)
                return
            shape = layer._batch_input_shape
            if shape is not None and not isinstance(layer, Model):
                kind = layer._dtype if not layer._inputs_may_be_whole else None
                first = Input(batch_shape=shape, dtype=kind, name=f"{layer.name}_input")
                self._ends = (first, first)
            elif isinstance(layer, Model) and layer._ends is not None:
                first = Input(batch_shape=layer.input_shape, dtype=nest.flatten(layer._ends[0])[0].dtype)
                self._ends = (first, first)
        self._layers.append(layer)
        if self._ends is not None:
            self._ends = (self._ends[0], layer(self._ends[1]))
            self.built = True

    def build(self, input_shape: Any = None) -> None:
        """Its layers, for inputs of that shape, batch included, where the first one does not say it."""
        if self.built or self._is_called:
            return
        if input_shape is None:
            raise ValueError(f"Sequential {self.name}: say the input_shape that it is built for")
        first = Input(batch_shape=tuple(input_shape))
        out = first
        for layer in self._layers:
            out = layer(out)
        self._ends, self.built = (first, out), True

    def _sequence_config(self) -> dict[str, Any]:
        layers = [configs.plain(layer) for layer in self.layers]
        fed = self._fed or []
        first = self._ends[0] if self._ends is not None else fed[0] if len(fed) == 1 else None
        if first is not None:  # else of whatever shape it is fed
            made = getattr(first, "_keras_history", None)
            head = {"batch_input_shape": list(backend.int_shape(first) or ()), "dtype": first.dtype.base_dtype.name,
                    "sparse": False, "name": made.layer.name if made else f"{self.layers[0].name}_input"}  # fmt: skip
            layers = [{"class_name": "InputLayer", "config": head}, *layers]
        return {"name": self.name, "layers": layers}

    @classmethod
    def _base(cls) -> type[Model]:
        return Model

    def pop(self) -> None:
        """Without the last layer. Raises TypeError where there is none."""
        if not self._layers:
            raise TypeError("There are no layers in the model.")
        last = self._layers.pop()
        if self._ends is not None:
            self._ends = (self._ends[0], last._nodes[-1].inputs)

    @property
    def layers(self) -> list[Any]:
        return once(self._layers)

    def call(self, inputs: Any, training: Any = None, mask: Any = None) -> Any:  # type: ignore[override]
        out = inputs
        if mask is not None and mask_of(inputs) is None:
            inputs._keras_mask = mask
        for layer in self._layers:
            out = layer(out)
        return out


def clone_model(model: Any, input_tensors: Any = None, clone_function: Callable[[Any], Any] | None = None) -> Any:
    return configs.cloned(model, input_tensors, clone_function)


def model_from_json(json_string: str, custom_objects: dict[str, Any] | None = None) -> Any:
    return configs.model_of(json.loads(json_string), custom_objects)


def model_from_config(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    return configs.model_of(config, custom_objects)


load_model, save_model = saving.load_model, saving.save


# ---------------------------------------------------------------------- what lies between


def _steps(inputs: list[Tensor], outputs: list[Tensor]) -> tuple[list[Node | Operation], list[Any]]:
    """The calls of layers and the ops that make outputs of inputs, in an order in which they can be made again; and the
    layers in the order in which a walk back from the outputs meets them.

    Ops that need no input are left as they are. Raises ValueError where a placeholder is needed that is none of the
    inputs.
    """
    needs: dict[int, bool] = {id(x): True for x in inputs}  # tensors: whether they come from inputs
    order: list[Node | Operation] = []
    done: set[int] = set()
    met: list[Any] = []
    stack: list[tuple[Tensor, bool]] = [(y, False) for y in reversed(outputs)]
    while stack:
        y, seen = stack.pop()
        if id(y) in needs:
            met += [y._keras_history.layer] if hasattr(y, "_keras_history") else []
            continue
        step, before = _maker(y)
        if not seen:
            met += [step.layer] if isinstance(step, Node) else []
            stack.append((y, True))
            stack += [(x, False) for x in reversed(before)]
            continue
        if isinstance(step, Node):
            made, needed = _made(step), True
        else:
            made, needed = _made(step), any(needs[id(x)] for x in before)
            if step.type == "Placeholder":
                raise ValueError(
                    f"Graph disconnected: cannot obtain value for tensor {y.name}, a placeholder that is none of the "
                    "model's inputs"
                )
        for v in made:
            needs.setdefault(id(v), needed)
        if needed and id(step) not in done:
            done.add(id(step))
            order.append(step)
    return order, once(met)


def _by_depth(steps: list[Node | Operation], met: list[Any], inputs: list[Tensor]) -> list[Any]:
    """The layers in Keras' order: those furthest from the outputs first, and of as far ones who was met first."""
    makers = {id(v): step for step in steps for v in _made(step)}
    depths: dict[int, int] = {}  # of steps, and of layers, which are as far as their furthest call
    heads = [x._keras_history.layer for x in inputs if hasattr(x, "_keras_history")]
    for step in reversed(steps):
        key = id(step.layer if isinstance(step, Node) else step)
        depth = depths[key] = max(depths.get(id(step), 0), depths.get(key, 0))
        for x in _maker(_made(step)[0])[1]:
            maker = makers.get(id(x))
            before = maker if maker is not None else getattr(getattr(x, "_keras_history", None), "layer", None)
            if before is not None:
                depths[id(before)] = max(depths.get(id(before), 0), depth + 1)
    layers = once([*met, *heads])
    return sorted(layers, key=lambda layer: -depths.get(id(layer), 0))


def _made(step: Node | Operation) -> list[Tensor]:
    return [v for v in nest.flatten(step.outputs) if isinstance(v, Tensor)]


def _maker(y: Tensor) -> tuple[Node | Operation, list[Tensor]]:
    node = getattr(y, "_keras_history", None)
    if node is None or isinstance(node.layer, InputLayer):
        return y.op, list(y.op.inputs)
    given = [node.inputs, list(node.args), list(node.kwargs.values())]
    return node, [x for x in nest.flatten(given) if isinstance(x, Tensor) and x is not y]


def _again(op: Operation, now: dict[Tensor, Any]) -> None:
    """The op, of what its inputs are now."""
    if op.type in ("Switch", "Merge", "Enter", "Exit", "NextIteration", "RefSwitch", "RefMerge", "RefEnter"):
        raise ValueError(
            f"Model: {op.name} is part of a tf.cond or tf.while_loop between layers; put it into a Lambda layer"
        )
    graph = get_default_graph()
    attrs = {key: value for key, value in op.attrs.items() if key != "_class"}
    made = graph.create_op(op.type, [now.get(x, x) for x in op.inputs], attrs, name=op.name.rpartition("/")[2])
    now.update(zip(op.outputs, made.outputs))
