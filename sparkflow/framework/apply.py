"""apply_op: checks and converts inputs against an op's row, infers type attributes, adds the node."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.allowed_types import ALLOWED
from sparkflow.framework.contexts import check_inputs
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.python_values import as_array, beyond_int32
from sparkflow.framework.registry import Arg, OpSpec, lookup, op
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.dtypes import DType, as_dtype
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.tensor_proto import check_fits

op("Const", "-> output: dtype", lambda op: [op.attrs["value"].shape])
op("Pack", "values: N * T -> output: T", lambda op: _pack_shape(op), axis=0)

# Of an attribute's kind, what Python has beside it: a float is cut to a whole number, as in TensorFlow.
_TAKEN_AS: dict[type, Any] = {
    bool: np.bool_,
    int: (numbers.Real, np.bool_),
    float: (numbers.Real, np.bool_),
    str: (),
}
_WORDS: dict[type, str] = {str: "string"}
# Of the ops whose inputs are a list, those that take none.
_MAY_BE_EMPTY = ("Parse", "Print", "PyFunc", "SparseCross", "String", "Collective", "_")
_ANYTHING: dict[str, frozenset[DType]] = {}
_CONVERSIONS: list[tuple[type, Callable[..., Tensor]]] = []


def register_conversion(kind: type, convert: Callable[..., Tensor]) -> None:
    """convert(value, dtype, name, as_ref) -> Tensor, for values that stand for tensors (variables, slices, ...)."""
    _CONVERSIONS.append((kind, convert))
    _tensor_like.cache_clear()


def _pack_shape(op: Operation) -> list[shapes.Dims]:
    dims: shapes.Dims = None
    for t in op.inputs:
        dims = shapes.merge(dims, t._shape)
    if dims is None:
        return [None]
    axis = op.attrs["axis"]
    if not -len(dims) - 1 <= axis <= len(dims):
        raise InvalidArgumentError(f"Pack: axis {axis} is out of range for values of shape {shapes.show(dims)}")
    axis %= len(dims) + 1
    return [(*dims[:axis], len(op.inputs), *dims[axis:])]


def constant(
    value: Any, dtype: Any = None, shape: Any = None, name: str = "Const", verify_shape: bool = False
) -> Tensor:
    """A Const node. shape: broadcasts the value to it, repeating the last element as TensorFlow does."""
    if isinstance(value, Tensor):
        raise TypeError(f"Expected any non-tensor type, got {value}: it is no constant")
    want = None if dtype is None else as_dtype(dtype)
    array = as_array(value, want)
    if want is not None and want.is_quantized:  # an array does not say so of itself
        plain = constant(array, None, shape, f"{name}/integers", verify_shape)
        return apply_op("Bitcast", [plain], {"type": want}, name)
    if shape is not None:
        array = _fill_to(array, shapes.as_dims(shape), verify_shape)
    check_fits(array)
    kind = as_dtype(array.dtype)
    return get_default_graph().create_op("Const", [], {"value": array, "dtype": kind}, name).outputs[0]


def _fill_to(array: np.ndarray, dims: Any, verify: bool) -> np.ndarray:
    if array.shape == dims:
        return array
    count = shapes.product(dims)
    if verify or array.size > max(count, 1) or not array.size:
        refusal = TypeError if verify else ValueError
        raise refusal(f"Expected a value of shape {shapes.show(dims)}, got shape {shapes.show(array.shape)}")
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), dims)  # without its memory: only its value is written to the graph
    flat = np.full(count, array.ravel()[-1], array.dtype)
    flat[: array.size] = array.ravel()
    return flat.reshape(dims)


def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None, dtype_hint: Any = None,
    as_ref: bool = False,
) -> Tensor:  # fmt: skip
    """A Tensor of `value`: itself, a variable's value, or a constant. Raises ValueError where the dtype differs.

    preferred_dtype (or dtype_hint): the type where dtype is not given and the value can have it.
    """
    if dtype is None and (preferred_dtype is not None or dtype_hint is not None):
        try:
            return convert_to_tensor(value, preferred_dtype or dtype_hint, name, as_ref=as_ref)
        except (TypeError, ValueError):
            pass  # a preference is none of the value's business
    want = None if dtype is None else as_dtype(dtype)
    if isinstance(value, Tensor):
        if want is not None and not want.is_compatible_with(value.dtype):
            raise ValueError(
                f"Tensor conversion requested dtype {want.name} for Tensor with dtype {value.dtype.name}: {value}"
            )
        return value
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value, want, name, as_ref)
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        return _stacked(value, want, name)
    if isinstance(value, (shapes.TensorShape, shapes.Dimension)):
        value, want = _static_ints(value), want or type_of_tensors(value, dtypes.int32)
    elif isinstance(value, (list, tuple)) and any(isinstance(v, shapes.Dimension) for v in value):
        value = [int(v) for v in value]
    return constant(value, want, name=name or "Const")


def _static_ints(value: Any) -> Any:
    if isinstance(value, shapes.Dimension):
        return int(value)
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert the partially known shape {value} to a Tensor; use tf.shape(x)")
    return value.as_list()


def is_tensor_like(value: Any) -> bool:
    return isinstance(value, _tensor_like())


@lru_cache(1)
def _tensor_like() -> tuple[type, ...]:
    return Tensor, *(kind for kind, _ in _CONVERSIONS)


def type_of_tensors(value: Any, default: DType) -> DType:
    """The type of a tensor, or of the first in nested lists; default where there is none: [n, 3] is of n's type.

    Sizes that int32 does not hold are int64, whatever the types of those beside them.
    """
    found = _first_type(value) or default
    return dtypes.int64 if found is dtypes.int32 and beyond_int32(value) else found


def _first_type(value: Any) -> DType | None:
    if isinstance(value, Tensor):
        return value.dtype.base_dtype
    for item in value if isinstance(value, (list, tuple)) else ():
        if isinstance(item, (Tensor, list, tuple)) and (found := _first_type(item)):
            return found
    return None


def holds_tensor(value: Any) -> bool:
    """Whether a value is what stands for a tensor, or lists in lists have one among them."""
    return is_tensor_like(value) or (isinstance(value, (list, tuple)) and any(map(holds_tensor, value)))


def _stacked(values: Any, want: DType | None, name: str | None) -> Tensor:
    """Of another type than the one asked for, tensors are cast: a size of int32 in a shape of int64."""
    tensors = [convert_to_tensor(v) if holds_tensor(v) else None for v in values]
    kinds = [t.dtype.base_dtype for t in tensors if t is not None]
    if want is not None and kinds and kinds[0] is not want:
        return _pack([v if t is None else _cast(t, want) for t, v in zip(tensors, values)], want, name)
    for kind in kinds:
        want = want or kind
        if kind is not want:
            raise TypeError(f"Cannot convert a list containing a tensor of dtype {kind.name} to {want.name}: {values}")
    return _pack([v if t is None else t for t, v in zip(tensors, values)], want, name)


def _pack(values: list[Any], want: DType | None, name: str | None) -> Tensor:
    return apply_op("Pack", [[convert_to_tensor(v, want) for v in values]], name=name or "packed")


def _cast(x: Tensor, want: DType) -> Tensor:
    return x if x.dtype.base_dtype is want else apply_op("Cast", [x], {"DstT": want})


def apply_op(op_type: str, inputs: Any = (), attrs: dict[str, Any] | None = None, name: str | None = None) -> Any:
    """Add an op; returns its Tensor, several by their names (`top_k(x).indices`), a list where one output is a list, or
    the Operation when it has no outputs.

    inputs: one entry an argument of the op's row, a list for list arguments. attrs: those the inputs do not tell.
    Raises TypeError or InvalidArgumentError naming the op and the argument.
    """
    op = create(op_type, inputs, attrs, name)
    if not op.outputs:
        return op
    if any(a.is_list for a in op.spec.outputs):
        return list(op.outputs)  # which the caller may change
    return op.outputs[0] if len(op.outputs) == 1 else op.spec.record(*op.outputs)


def create(op_type: str, inputs: Any = (), attrs: dict[str, Any] | None = None, name: str | None = None) -> Operation:
    spec, attrs = lookup(op_type), dict(attrs or {})
    if len(inputs) != len(spec.inputs):
        raise TypeError(f"{op_type} takes {len(spec.inputs)} inputs ({spec.signature}), got {len(inputs)}")
    graph = get_default_graph()
    with graph.name_scope(name or op_type) as scope:  # so that a converted constant is called e.g. MatMul/b
        flat = _flatten(spec, inputs, attrs)
        _check_complete(spec, attrs)
        _check_plain(spec, attrs)
        op = graph.create_op(op_type, flat, attrs, scope)
    for tensor in op.inputs:
        if tensor.op._control_flow_context is not None:
            check_inputs(op)
            break
    return op


def _check_complete(spec: OpSpec, attrs: dict[str, Any]) -> None:
    for name in spec.types_to_tell:
        if name not in attrs:
            raise TypeError(f"{spec.name}: attribute {name!r} is missing; the inputs do not tell it ({spec.signature})")


def _check_plain(spec: OpSpec, attrs: dict[str, Any]) -> None:
    """Raises TypeError, as TensorFlow does, where an attribute is of another kind than its default."""
    for name, value in attrs.items():
        kind = spec.plain.get(name)
        if kind is not None and type(value) is not kind:
            attrs[name] = _as_plain(spec, name, kind, value)


def _as_plain(spec: OpSpec, name: str, kind: type, value: Any) -> Any:
    if kind is str and isinstance(value, (str, bytes)):
        return value
    if isinstance(value, _TAKEN_AS[kind]):
        return kind(value)
    raise TypeError(f"{spec.name}: Expected {_WORDS.get(kind, kind.__name__)} for argument {name!r} not {value!r}.")


def _flatten(spec: OpSpec, inputs: Any, attrs: dict[str, Any]) -> list[Tensor]:
    """Tensors first, so that they fix the type attributes that Python values then follow."""
    for arg, value in zip(spec.inputs, inputs, strict=True):
        _learn_from_tensors(spec, arg, value, attrs)
    flat: list[Tensor] = []
    for arg, value in zip(spec.inputs, inputs, strict=True):
        flat += _convert_arg(spec, arg, value, attrs)
    _check_types(spec, attrs)
    return flat


def _check_types(spec: OpSpec, attrs: dict[str, Any]) -> None:
    """Raises TypeError, as TensorFlow does, where a type is none of those that the op takes."""
    for attr, allowed in ALLOWED.get(spec.name, _ANYTHING).items():
        given = attrs.get(attr)
        if type(given) is DType and given in allowed:
            continue
        for dtype in given if isinstance(given, list) else () if given is None else (given,):
            if as_dtype(dtype) not in allowed:
                raise TypeError(_refused(spec, attr, as_dtype(dtype)))


def _refused(spec: OpSpec, attr: str, given: DType) -> str:
    allowed = ", ".join(sorted(t.name for t in ALLOWED[spec.name][attr]))
    named = [arg.name for arg in spec.inputs if arg.type_attr == attr]
    what = f"Value passed to parameter {named[0]!r}" if named else f"Value passed to attribute {attr!r}"
    return f"{spec.name}: {what} has DataType {given.name} not in list of allowed values: {allowed}; tf.cast converts"


def _learn_from_tensors(spec: OpSpec, arg: Arg, value: Any, attrs: dict[str, Any]) -> None:
    if arg.type_attr is None or arg.is_type_list or arg.type_attr in attrs:
        return
    for item in value if arg.number_attr else (value,):
        if is_tensor_like(item):
            attrs[arg.type_attr] = (item.dtype if hasattr(item, "dtype") else convert_to_tensor(item).dtype).base_dtype
            return


def _convert_arg(spec: OpSpec, arg: Arg, value: Any, attrs: dict[str, Any]) -> list[Tensor]:
    if arg.is_list and isinstance(value, (list, tuple)) and not value and not spec.name.startswith(_MAY_BE_EMPTY):
        raise InvalidArgumentError(f"{_where(spec, arg)} takes a list of at least one tensor, got {value!r}")
    if arg.is_type_list:
        wanted = attrs.get(arg.type_attr or "") or [None] * len(value)
        tensors = [_convert(v, t, spec, arg, i) for i, (v, t) in enumerate(zip(value, wanted, strict=True))]
        attrs[arg.type_attr or ""] = [t.dtype.base_dtype for t in tensors]
        return tensors
    if arg.number_attr:
        if not isinstance(value, (list, tuple)):
            raise TypeError(f"{_where(spec, arg)} takes a list of tensors, got {value!r}")
        attrs.setdefault(arg.number_attr, len(value))
    want = arg.dtype or attrs.get(arg.type_attr or "") or (_default_type(spec, arg, value))
    tensors = []
    for i, item in enumerate(value if arg.number_attr else (value,)):
        tensors.append(_convert(item, want, spec, arg, i))
        want = want or tensors[0].dtype.base_dtype
    if arg.type_attr and tensors:
        attrs.setdefault(arg.type_attr, tensors[0].dtype.base_dtype)
    return tensors


def _default_type(spec: OpSpec, arg: Arg, value: Any) -> Any:
    default = spec.defaults.get(arg.type_attr or "")
    if isinstance(value, np.ndarray):
        return None if value.dtype.kind in "iu" else default
    if default is None:
        return None
    wanted = type_of_tensors(value, default)
    allowed = ALLOWED.get(spec.name, _ANYTHING).get(arg.type_attr or "")
    return wanted if allowed is None or wanted in allowed else default


def _where(spec: OpSpec, arg: Arg) -> str:
    return f"{spec.name}: argument {arg.name!r}"


def _convert(value: Any, want: Any, spec: OpSpec, arg: Arg, index: int) -> Tensor:
    name = f"{arg.name}_{index}" if arg.is_list else arg.name
    try:
        tensor = convert_to_tensor(value, want, name, as_ref=arg.is_ref)
    except (TypeError, ValueError) as error:
        refusal = TypeError if isinstance(value, Tensor) else type(error)  # a tensor can only have the wrong type
        raise refusal(f"{_where(spec, arg)}: {error}") from None
    if arg.is_ref and not tensor.dtype.is_ref:
        raise TypeError(f"{_where(spec, arg)} must be a mutable tensor (a variable), got {tensor}")
    return tensor
