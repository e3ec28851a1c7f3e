"""tf.contrib.layers.utils: outputs collected by name, sizes of tensors, pairs of numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops.control_flow_cond import cond, smart_cond


def append_tensor_alias(tensor: Any, alias: str) -> Any:
    """Give the tensor one more name, under which convert_collection_to_dict has it."""
    tensor.aliases = [*getattr(tensor, "aliases", ()), alias.removesuffix("/")]
    return tensor


def get_tensor_aliases(tensor: Any) -> list[str]:
    """The names given to it, or that of its node."""
    return getattr(tensor, "aliases", None) or [tensor.name.removesuffix(":0")]


def gather_tensors_aliases(tensors: Sequence[Any]) -> list[str]:
    return [alias for tensor in tensors for alias in get_tensor_aliases(tensor)]


def collect_named_outputs(collections: Any, alias: str, outputs: Any) -> Any:
    """Put outputs in the collections, by that name."""
    if collections:
        append_tensor_alias(outputs, alias)
        get_default_graph().add_to_collections(collections, outputs)
    return outputs


def convert_collection_to_dict(collection: str, clear_collection: bool = False) -> OrderedDict[str, Any]:
    """{name: tensor} of a collection, in its order."""
    graph = get_default_graph()
    found = OrderedDict((alias, t) for t in graph.get_collection(collection) for alias in get_tensor_aliases(t))
    if clear_collection:
        graph.clear_collection(collection)
    return found


def last_dimension(shape: Any, min_rank: int = 1) -> int:
    """Raises ValueError where the shape has fewer axes, or the last one's size is not known."""
    dims = shape.dims_ if hasattr(shape, "dims_") else tuple(shape)
    if dims is None or len(dims) < min_rank or dims[-1] is None:
        raise ValueError(f"The last dimension of {shape} (of at least {min_rank}) must be known")
    return dims[-1]


def two_element_tuple(int_or_tuple: Any) -> tuple[int, int]:
    """(n, n) of n, or the two numbers given. Raises ValueError otherwise."""
    listed = list(int_or_tuple) if hasattr(int_or_tuple, "__iter__") else [int_or_tuple] * 2
    if len(listed) != 2:
        raise ValueError(f"Must be a list with 2 elements: {int_or_tuple}")
    return int(listed[0]), int(listed[1])


def n_positive_integers(n: int, value: Any) -> tuple[int, ...]:
    """n numbers above 0, from one or from as many. Raises ValueError otherwise."""
    listed = tuple(value) if hasattr(value, "__iter__") else (value,) * n
    if len(listed) != n or any(int(v) < 1 for v in listed):
        raise ValueError(f"Expected {n} positive integers, got {value}")
    return tuple(int(v) for v in listed)


def constant_value_(value_or_tensor_or_var: Any, dtype: Any = None) -> Any:
    """A Python number of it, None where it is not known before a step."""
    if isinstance(value_or_tensor_or_var, (bool, int, float)):
        return value_or_tensor_or_var
    found = constant_value(convert_to_tensor(value_or_tensor_or_var, dtype))
    return None if found is None else found.item()


def static_cond(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any]) -> Any:
    return fn1() if pred else fn2()


def smart_cond_(pred: Any, fn1: Callable[[], Any], fn2: Callable[[], Any], name: str | None = None) -> Any:
    """fn1() or fn2() where pred is known now, else a cond."""
    return smart_cond(pred, fn1, fn2) if name is None else cond(pred, fn1, fn2, name=name)
