"""Models as configs, in Keras' form, and models made of them: for model_from_json, clone_model and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import contextmanager
from inspect import signature
from types import FunctionType
from typing import Any

import numpy as np

from sparkflow.framework import nest
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.shapes import TensorShape
from sparkflow.keras import constraints, regularizers
from sparkflow.keras.calls import Node, once
from sparkflow.keras.engine import Layer
from sparkflow.ops import activations, init_named
from sparkflow_runtime.wire.dtypes import DType

_custom: dict[str, Any] = {}
_MODELS = ("Functional", "Model", "Network", "Sequential")
_TENSOR_LESS = (str, bool, int, float, type(None))


@contextmanager
def custom_object_scope(*given: dict[str, Any]) -> Any:
    """Inside, classes and functions of yours are known by these names."""
    before = dict(_custom)
    for objects in given:
        _custom.update(objects or {})
    try:
        yield _custom
    finally:
        _custom.clear()
        _custom.update(before)


def get_custom_objects() -> dict[str, Any]:
    return _custom


# ---------------------------------------------------------------------- to configs


def plain(value: Any) -> Any:
    """What JSON can hold instead: the name of a function, the class and config of an object. Raises TypeError."""
    if isinstance(value, Layer):
        return {"class_name": type(value).__name__, "config": layer_config(value)}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, DType):
        return value.name
    if isinstance(value, TensorShape):
        return value.as_list()
    if hasattr(value, "get_config"):
        return {"class_name": type(value).__name__, "config": value.get_config()}
    if callable(value):
        return value.__name__
    raise TypeError(f"A config cannot hold {value!r}: say it by names and numbers")


def layer_config(layer: Any) -> dict[str, Any]:
    """What the layer's class makes it of, with names for what is not plain."""
    if hasattr(layer, "_steps") or hasattr(layer, "_ends"):
        return config_of(layer)
    config = dict(layer.get_config())
    if type(layer).__name__ == "InputLayer":
        kind = layer.output.dtype.base_dtype.name
        size = list(layer._batch_input_shape)
        return {"batch_input_shape": size, "dtype": kind, "sparse": config["sparse"], "name": layer.name}
    own = signature(type(layer).__init__).parameters
    for key in ("weights", "input_shape", "input_dim", "batch_size", "batch_input_shape"):
        if key not in own:
            config.pop(key, None)
    if layer._batch_input_shape is not None:
        config = {"batch_input_shape": list(layer._batch_input_shape), **config}
    return json.loads(json.dumps(config, default=plain))


def config_of(model: Any) -> dict[str, Any]:
    """Raises NotImplementedError for a class with a `call` of its own, and for ops between layers."""
    own = type(model).get_config
    if "call" in vars(type(model)) and type(model).__name__ not in _MODELS:
        if own is not Layer.get_config and own.__module__ != __name__ and "sparkflow." not in own.__module__:
            return dict(model.get_config())
        raise NotImplementedError(
            f"{type(model).__name__} has a `call` of its own: it has no config. Save its weights (save_weights)"
        )
    if hasattr(model, "_sequence_config"):
        return model._sequence_config()
    if any(isinstance(step, Operation) for step in model._steps):
        raise NotImplementedError(f"Model {model.name} has ops between its layers: put them into Lambda layers")
    places: dict[int, list[Any]] = {}
    count: dict[int, int] = {}
    inputs = nest.flatten(model._ends[0])
    for x in inputs:
        places[id(x)] = [x._keras_history.layer.name, 0, 0]
    nodes: dict[int, list[Any]] = {}
    for step in model._steps:
        at = count.get(id(step.layer), 0)
        count[id(step.layer)] = at + 1
        nodes.setdefault(id(step.layer), []).append(_node(step, places))
        for i, y in enumerate(nest.flatten(step.outputs)):
            places[id(y)] = [step.layer.name, at, i]
    layers = [
        {
            "class_name": type(layer).__name__,
            "config": layer_config(layer),
            "name": layer.name,
            "inbound_nodes": nodes.get(id(layer), []),
        }
        for layer in model.layers
    ]
    ends = [[places[id(t)] for t in nest.flatten(end)] for end in model._ends]
    return {"name": model.name, "layers": layers, "input_layers": ends[0], "output_layers": ends[1]}


def _node(step: Node, places: dict[int, list[Any]]) -> list[Any]:
    """Where each of a call's inputs comes from, and its further arguments."""
    given = [*nest.flatten(step.inputs), *nest.flatten(list(step.args))]
    kwargs = {k: v for k, v in step.kwargs.items() if k not in ("mask", "training") or isinstance(v, bool)}
    for key in ("initial_state", "constants"):
        given += nest.flatten(kwargs.pop(key)) if key in kwargs else []
    wrong = [key for key, value in kwargs.items() if not isinstance(value, _TENSOR_LESS)]
    if wrong or any(id(x) not in places for x in given):
        raise NotImplementedError(f"Layer {step.layer.name}: its call takes {wrong or 'what no layer made'}: no config")
    return [[*places[id(x)], kwargs] for x in given]


# ---------------------------------------------------------------------- from configs


def class_of(name: str) -> Any:
    """Raises ValueError where no layer or model has that name."""
    from sparkflow.keras import layers, models

    found = _custom.get(name) or getattr(layers, name, None) or getattr(models, name, None)
    if name in ("Functional", "Network"):
        found = models.Model
    if found is None:
        raise ValueError(f"Unknown layer: {name!r}. Name it in custom_objects, or in a custom_object_scope")
    return found


def layer_of(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """The layer of {"class_name", "config"}."""
    with custom_object_scope(custom_objects or {}):
        name = config["class_name"]
        kind = class_of(name)
        if name in _MODELS and _is_ours(kind):
            return model_of(config)
        given = {key: _object(key, value) for key, value in config["config"].items()}
        return kind.from_config(_known_arguments(kind, given))


def _known_arguments(kind: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Of our own layers' configs, without what newer versions of Keras add."""
    if not _is_ours(kind):
        return given
    drop = (
        "groups",
        "ragged",
        "optional",
        "autocast",
        "build_config",
        "registered_name",
        "module",
        "use_legacy_config",
    )
    kept = {key: value for key, value in given.items() if key not in drop}
    if "sparse" in kept and "sparse" not in signature(kind.__init__).parameters:
        kept.pop("sparse")
    return kept


def _object(key: str, value: Any) -> Any:
    """What a config's value stands for: initializers and their kin, layers, names of yours."""
    if isinstance(value, str):
        return _custom.get(value, value) if not key.endswith("name") else value
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict) and "class_name" in value[0]:
        return [_object(key, v) for v in value]
    if not isinstance(value, dict) or "class_name" not in value:
        return value
    name, config = value["class_name"], dict(value.get("config") or {})
    if name == "Policy":
        return config.get("name")
    known: Any = _custom.get(name)
    if known is not None and not (isinstance(known, type) and issubclass(known, Layer)):
        return known.from_config(config) if hasattr(known, "from_config") else known(**config)
    if key.endswith("initializer"):
        found = getattr(init_named, name, None)
        if found is None:
            raise ValueError(f"Unknown initializer: {name!r}; name it in custom_objects")
        return found(**{k: v for k, v in config.items() if k in signature(found.__init__).parameters})
    if key.endswith("regularizer"):
        return regularizers.L1L2(**config) if name == "L1L2" else getattr(regularizers, name.lower())(*config.values())
    if key.endswith("constraint"):
        return getattr(constraints, name)(**config)
    if key.endswith("activation"):
        return activations.get(name.lower())
    return layer_of(value)


def model_of(config: dict[str, Any], custom_objects: dict[str, Any] | None = None) -> Any:
    """The model of {"class_name", "config"}, with new variables."""
    with custom_object_scope(custom_objects or {}):
        kind = class_of(config["class_name"])
        if not _is_ours(kind):
            return kind.from_config(config["config"])
        return made_by(kind, config["config"])


def made_by(kind: Any, config: Any, custom_objects: dict[str, Any] | None = None) -> Any:
    """A Model, a Sequential, or a class of yours upon one of them without a `call`."""
    with custom_object_scope(custom_objects or {}):
        if isinstance(config, dict) and "input_layers" in config:
            return _connected(kind, config)
        if isinstance(config, dict) and "layers" not in config:
            return kind(**config)
        listed = config if isinstance(config, list) else config["layers"]
        return kind([layer_of(c) for c in listed], name=None if isinstance(config, list) else config.get("name"))


def _connected(kind: Any, config: dict[str, Any]) -> Any:
    """Layers called on one another's outputs as the nodes say, in any order that this allows."""
    layers = {c["name"]: layer_of(c) for c in config["layers"]}
    outputs: dict[tuple[str, int], list[Any]] = {}
    for name, layer in layers.items():
        if layer._nodes and type(layer).__name__ == "InputLayer":
            outputs[name, 0] = [layer.output]
    todo = [(c["name"], i, node) for c in config["layers"] for i, node in enumerate(c["inbound_nodes"])]
    while todo:
        later = []
        for name, i, node in todo:
            parts = _parts(node)
            if any((p[0], p[1]) not in outputs for p in parts):
                later.append((name, i, node))
                continue
            given = [outputs[p[0], p[1]][p[2]] for p in parts]
            kwargs: dict[str, Any] = next((p[3] for p in parts if len(p) > 3 and p[3]), {})
            out = layers[name](given[0] if len(given) == 1 else given, **kwargs)
            outputs[name, i] = nest.flatten(out)
        if len(later) == len(todo):
            raise ValueError(f"Config of {config['name']}: {later[0][0]} is called on what no layer of it gives")
        todo = later
    ends = [_ends(config[key], outputs) for key in ("input_layers", "output_layers")]
    return kind(*ends, name=config.get("name"))


def _parts(node: Any) -> list[Any]:
    return [node] if node and isinstance(node[0], str) else list(node)


def _ends(listed: Any, outputs: dict[tuple[str, int], list[Any]]) -> Any:
    found = [outputs[p[0], p[1]][p[2]] for p in _parts(listed)]
    return found[0] if len(found) == 1 else found


def _copied(layer: Any) -> Any:
    """Made of its config by its own class. custom_objects need say nothing of the classes and functions in it."""
    if hasattr(layer, "_sequence_config") or getattr(layer, "_ends", None) is not None:
        return cloned(layer)
    inside: list[Any] = [layer]
    held: dict[str, Any] = {}
    for one in inside:
        inside += one._children()
        held.update({v.__name__: v for v in vars(one).values() if isinstance(v, FunctionType) and not _is_ours(v)})
        held.update({} if _is_ours(type(one)) else {type(one).__name__: type(one)})
    with custom_object_scope(held):
        return layer_of(plain(layer))


def _is_ours(kind: Any) -> bool:
    return kind.__module__.startswith("sparkflow.")


def cloned(model: Any, input_tensors: Any = None, clone_function: Callable[[Any], Any] | None = None) -> Any:
    """The same model with layers, and variables, of its own. clone_function: of a layer, the one instead of it."""
    from sparkflow.keras.layers.core import Input

    make = clone_function or _copied
    if hasattr(model, "_sequence_config"):
        copies = [make(layer) for layer in model.layers]
        if input_tensors is not None or (model._ends is not None and copies and copies[0]._batch_input_shape is None):
            shape = model.input_shape if model._ends is not None else None
            first = nest.flatten(input_tensors)[0] if input_tensors is not None else Input(batch_shape=shape)
            out = first
            for layer in copies:
                out = layer(out)
            if input_tensors is not None:
                return type(model)._base()(first, out, name=model.name)
            copies = [first._keras_history.layer, *copies]
            again = type(model)(name=model.name)
            again._layers, again._ends, again.built = copies[1:], (first, out), True
            return again
        return type(model)(copies, name=model.name)
    if getattr(model, "_ends", None) is None:
        raise ValueError(f"Expected a functional or Sequential model; {type(model).__name__} has a `call` of its own")
    copies_of = {id(layer): make(layer) for layer in once([s.layer for s in model._steps if isinstance(s, Node)])}
    starts = nest.flatten(model._ends[0])
    given = nest.flatten(input_tensors) if input_tensors is not None else [_input_like(x) for x in starts]
    outs = model._computed(dict(zip(starts, given)), lambda layer: copies_of[id(layer)])
    ends: Any = nest.pack_sequence_as(model._ends[0], given) if nest.is_nested(model._ends[0]) else given[0]
    return type(model)(ends, outs, name=model.name)


def _input_like(x: Tensor) -> Any:
    from sparkflow.keras import backend
    from sparkflow.keras.layers.core import Input

    return Input(batch_shape=backend.int_shape(x), dtype=x.dtype.base_dtype, name=x._keras_history.layer.name)  # type: ignore[attr-defined]
