"""tf.raw_ops: every op of the table as a function of its inputs and attributes, all given by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.apply import apply_op, create
from sparkflow.framework.registry import lookup, registered
from sparkflow.framework.shapes import TensorShape, as_dims
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import UnimplementedError


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_") or name not in registered():
        raise AttributeError(f"module 'sparkflow.raw_ops' has no op {name!r}")
    return _function(name)


def __dir__() -> list[str]:
    return sorted(op for op in registered() if not op.startswith("_"))


def _function(op_type: str) -> Callable[..., Any]:
    spec = lookup(op_type)
    inputs = [arg.name for arg in spec.inputs]
    lists = len(spec.outputs) > 1 and any(arg.is_list for arg in spec.outputs)

    def build(name: str | None = None, **given: Any) -> Any:
        missing = [arg for arg in inputs if arg not in given]
        if missing:
            raise TypeError(f"{op_type}() takes its inputs {inputs} by name; {missing} are not given")
        attrs = {key: _attribute(key, value) for key, value in given.items() if key not in inputs}
        values = [given[arg] for arg in inputs]
        if not lists:
            return apply_op(op_type, values, attrs, name)
        made = create(op_type, values, attrs, name)
        return spec.grouped(made.outputs, made.attrs)

    build.__name__ = build.__qualname__ = op_type
    build.__doc__ = f"The op {op_type}: {lookup(op_type).signature}, and its attributes."
    return build


# Attributes that are shapes, and lists of shapes; they may be given as whatever stands for a shape.
_SHAPES, _SHAPE_LISTS = {"shape", "value_shape"}, {"shapes", "output_shapes", "component_shapes", "dense_shapes"}


def _attribute(key: str, value: Any) -> Any:
    """As a row has it: types and shapes may be given as what stands for them."""
    if callable(value) and not isinstance(value, type):
        raise UnimplementedError(f"raw_ops: an attribute that is a function ({key}={value!r}) is not supported")
    if key in _SHAPES or isinstance(value, TensorShape):
        return Shape(as_dims(value))
    if key in _SHAPE_LISTS:
        return [Shape(as_dims(each)) for each in value]
    return dtypes.as_dtype(value) if isinstance(value, type) else value
