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
from sparkflow.keras import backend

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


def depends(value: Any, inputs: list[Any]) -> bool:
    """Whether an op or tensor needs one of the tensors `inputs`."""
    ends = {id(getattr(x, "op", x)) for x in inputs}
    todo = [getattr(value, "op", value)]
    seen = set(todo)
    while todo:
        op = todo.pop()
        if id(op) in ends:
            return True
        before = {*(x.op for x in op.inputs), *op.control_inputs} - seen
        seen |= before
        todo += before
    return False


def once(values: list[Any]) -> list[Any]:
    return list({id(v): v for v in values}.values())


class Called:
    """What is asked of a layer about its calls."""

    name: Any
    updates: Any
    losses: Any
    _nodes: list[Node]
    _children: Any

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """The updates that need these tensors; of None, those that need nothing that the layer was called on."""
        return self._for(inputs, self.updates)

    def get_losses_for(self, inputs: Any) -> list[Any]:
        return self._for(inputs, self.losses)

    def _for(self, inputs: Any, values: list[Any]) -> list[Any]:
        ends = self._called_on() if inputs is None else nest.flatten(inputs)
        return [v for v in values if depends(v, ends) == (inputs is not None)]

    def _called_on(self) -> list[Any]:
        own = [x for node in self._nodes for x in nest.flatten(node.inputs) if x is not None]
        return [*own, *(x for c in self._children() if isinstance(c, Called) for x in c._called_on())]

    def _only_node(self, what: str) -> Node:
        if len(self._nodes) != 1:
            raise AttributeError(
                f"Layer {self.name} has been called {len(self._nodes)} times; {what} is that of its only call"
            )
        return self._nodes[0]

    def _node_at(self, what: str, node_index: int) -> Node:
        if not -len(self._nodes) <= node_index < len(self._nodes):
            raise ValueError(
                f"Asked for {what} of call {node_index} of layer {self.name}, which has {len(self._nodes)}"
            )
        return self._nodes[node_index]

    def get_input_at(self, node_index: int) -> Any:
        """The inputs of that call. Raises ValueError where there is none."""
        return self._node_at("the inputs", node_index).inputs

    def get_output_at(self, node_index: int) -> Any:
        return self._node_at("the outputs", node_index).outputs

    def get_output_shape_at(self, node_index: int) -> Any:
        return nest.map_structure(backend.int_shape, self.get_output_at(node_index))

    input = property(lambda self: self._only_node("input").inputs)
    output = property(lambda self: self._only_node("output").outputs)
    input_shape = property(lambda self: nest.map_structure(backend.int_shape, self._only_node("input_shape").inputs))
    output_shape = property(lambda self: nest.map_structure(backend.int_shape, self._only_node("output_shape").outputs))
