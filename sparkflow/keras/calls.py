"""What a call of a Keras layer is made of: names, shapes, masks, and the record of it."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Tensor, get_default_graph
from sparkflow.framework.shapes import TensorShape
from sparkflow.framework.sparse_tensor import SparseTensor

_names: WeakKeyDictionary[Graph, Counter[str]] = WeakKeyDictionary()


class Node(NamedTuple):
    """One call of a layer on tensors."""

    layer: Any  # Layer
    inputs: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: Any


def unique_name(base_name: str) -> str:
    """The name, with _1, _2 and so on where the default graph has layers of that name."""
    taken = _names.setdefault(get_default_graph(), Counter())
    taken[base_name] += 1
    return base_name if taken[base_name] == 1 else f"{base_name}_{taken[base_name] - 1}"


def numbered(base_name: str) -> str:
    """The name and a number, from 1 on."""
    taken = _names.setdefault(get_default_graph(), Counter())
    taken[f"{base_name} by number"] += 1
    return f"{base_name}_{taken[f'{base_name} by number']}"


def mask_of(tensors: Any) -> Any:
    """What is known of which steps count: a bool tensor, or None, for each."""
    if isinstance(tensors, (list, tuple)):
        return [mask_of(x) for x in tensors]
    return getattr(tensors, "_keras_mask", None)


def tensor(x: Any) -> Any:
    return x if isinstance(x, (Tensor, SparseTensor)) or x is None else convert_to_tensor(x)


def shapes_of(inputs: Any) -> Any:
    return nest.map_structure(lambda x: None if x is None else TensorShape(x.get_shape()), inputs)


def is_shape(value: Any) -> bool:
    return isinstance(value, (tuple, list, TensorShape))


def batch_shape(kwargs: dict[str, Any]) -> tuple[int | None, ...] | None:
    """With the batch's axis, where the arguments of a first layer say it."""
    if kwargs.get("batch_input_shape") is not None:
        return tuple(kwargs["batch_input_shape"])
    shape = kwargs.get("input_shape")
    if shape is None and kwargs.get("input_dim") is not None:
        shape = (kwargs["input_dim"],)
    return None if shape is None else (kwargs.get("batch_size"), *shape)


def collect(value: Any, kind: type, found: dict[int, Any]) -> None:
    if isinstance(value, kind):
        found.setdefault(id(value), value)
    elif isinstance(value, dict):
        for item in value.values():
            collect(item, kind, found)
    elif isinstance(value, (list, tuple)):
        for item in value:
            collect(item, kind, found)


def once(values: list[Any]) -> list[Any]:
    return list({id(v): v for v in values}.values())
