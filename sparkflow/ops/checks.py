"""assert_* and is_*: what a graph may take for granted, checked at once where known, by an Assert node else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.registry import op
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops import array, array_slice, control_flow, math, math_reduce
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError

op("EnsureShape", "input: T -> output: T", lambda op: [shapes.merge(op.inputs[0]._shape, op.attrs["shape"].dims)])

Check = Callable[..., Operation]


def _checked(truth: Callable[[], Tensor], known: Any, data: Sequence[Any], summarize: int | None) -> Operation:
    """No op where `known` says that it holds, an error where it does not, an Assert where it is None."""
    if known is None:
        return control_flow.Assert(truth(), data, summarize=summarize)
    if not known:
        raise InvalidArgumentError("\n".join(_shown(d, 3 if summarize is None else summarize) for d in data))
    return control_flow.no_op("static_checks_determined_all_ok")


def _shown(item: Any, summarize: int) -> str:
    """A text, or of values that are known the first `summarize`, all for a number below 0."""
    value = constant_value(item) if isinstance(item, Tensor) else item
    if isinstance(value, str) or value is None:
        return str(item)
    flat = np.ravel(value)
    first = [str(x) for x in (flat if summarize < 0 else flat[:summarize])]
    return str(value) if not np.ndim(value) else str([*first, *(["..."] if len(first) < flat.size else [])])


def _told(message: str | None, data: Any, otherwise: Sequence[Any]) -> list[Any]:
    """What an error says: the message where there is one, and the data or what the check itself has to say."""
    return [*([message] if message else []), *(data or otherwise)]


def _before(message: str | None) -> str:
    return f"{message}  " if message else ""


def _all(condition: Tensor) -> Tensor:
    return math_reduce.reduce_all(condition)


def _compared(name: str, sign: str, compare: Callable[..., Tensor], numpy: Callable[..., Any]) -> Check:
    def check(
        x: Any, y: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
        name: str | None = None,
    ) -> Operation:  # fmt: skip
        with get_default_graph().name_scope(name or label):
            x = convert_to_tensor(x, name="x")
            y = convert_to_tensor(y, x.dtype.base_dtype, "y")
            a, b = constant_value(x), constant_value(y)
            known = None if a is None or b is None else bool(np.all(numpy(a, b)))
            said = f"Condition x {sign} y did not hold element-wise:"
            shown = _told(message, data, [said, f"x ({x.name}) = ", x, f"y ({y.name}) = ", y])
            return _checked(lambda: _all(compare(x, y)), known, shown, summarize)

    label = name
    check.__name__ = check.__qualname__ = name
    check.__doc__ = (
        f"An op that fails with InvalidArgumentError unless x {sign} y, element by element with broadcasting."
    )
    return check


assert_equal = _compared("assert_equal", "==", math.equal, np.equal)
assert_none_equal = _compared("assert_none_equal", "!=", math.not_equal, np.not_equal)
assert_less = _compared("assert_less", "<", math.less, np.less)
assert_less_equal = _compared("assert_less_equal", "<=", math.less_equal, np.less_equal)
assert_greater = _compared("assert_greater", ">", math.greater, np.greater)
assert_greater_equal = _compared("assert_greater_equal", ">=", math.greater_equal, np.greater_equal)


def _signed(name: str, sign: str, against: Check, flipped: bool) -> Check:
    def check(
        x: Any, data: Any = None, summarize: int | None = None, message: str | None = None, name: str | None = None
    ) -> Operation:
        with get_default_graph().name_scope(name or label):
            x = convert_to_tensor(x, name="x")
            zero = convert_to_tensor(0, x.dtype.base_dtype)
            said = [f"Condition x {sign} 0 did not hold element-wise:", f"x ({x.name}) = ", x]
            shown = _told(message, data, said)
            return against(*((zero, x) if flipped else (x, zero)), data=shown, summarize=summarize)

    label = name
    check.__name__ = check.__qualname__ = name
    check.__doc__ = f"An op that fails with InvalidArgumentError unless x {sign} 0 everywhere."
    return check


assert_negative = _signed("assert_negative", "<", assert_less, False)
assert_positive = _signed("assert_positive", ">", assert_less, True)
assert_non_negative = _signed("assert_non_negative", ">=", assert_less_equal, True)
assert_non_positive = _signed("assert_non_positive", "<=", assert_less_equal, False)


def assert_near(
    x: Any, y: Any, rtol: Any = None, atol: Any = None, data: Any = None, summarize: int | None = None,
    message: str | None = None, name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless |x - y| <= atol + rtol * |y| everywhere; both tolerances are 10 times the type's eps."""
    with get_default_graph().name_scope(name or "assert_near"):
        x = convert_to_tensor(x, name="x")
        y = convert_to_tensor(y, x.dtype.base_dtype, "y")
        eps = 10 * float(np.finfo(x.dtype.np if x.dtype.name != "bfloat16" else np.float32).eps)
        rtol, atol = (convert_to_tensor(eps if t is None else t, x.dtype.base_dtype) for t in (rtol, atol))
        said = ["x and y not equal to tolerance", f"x ({x.name}) = ", x, f"y ({y.name}) = ", y]
        shown = _told(message, data, said)
        bound = math.add(atol, math.multiply(rtol, math.abs(y)))
        return control_flow.Assert(_all(math.less(math.abs(math.subtract(x, y)), bound)), shown, summarize=summarize)


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raises TypeError at once where x has no integer type."""
    with get_default_graph().name_scope(name or "assert_integer"):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_integer:
            raise TypeError(f'{_before(message)}Expected "x" to be integer type.  Found: {x.dtype.name} ({x.name})')
        return control_flow.no_op("statically_determined_was_integer")


def assert_type(tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None) -> Operation:
    """Raises TypeError at once where the tensor has another type."""
    with get_default_graph().name_scope(name or "assert_type"):
        tensor, want = convert_to_tensor(tensor, name="tensor"), dtypes.as_dtype(tf_type)
        if tensor.dtype.base_dtype is not want:
            raise TypeError(f"{_before(message)}{tensor.name} must be of type {want.name}; got {tensor.dtype.name}")
        return control_flow.no_op("statically_determined_correct_type")


def assert_same_float_dtype(tensors: Sequence[Any] | None = None, dtype: Any = None) -> dtypes.DType:
    """The one float type of all the tensors and dtype. Raises ValueError where they differ or are no floats."""
    found = None if dtype is None else dtypes.as_dtype(dtype)
    for tensor in tensors or ():
        own = tensor.dtype.base_dtype
        if found is not None and own is not found:
            raise ValueError(f"Tensor {tensor} has type {own.name}, expected {found.name}")
        found = own
    found = found or dtypes.float32
    if not found.is_floating:
        raise ValueError(f"Expected floating point type, got {found.name}.")
    return found


# ---------------------------------------------------------------------- ranks and shapes


def _rank_check(name: str, sign: str, compare: Callable[..., Tensor], numpy: Callable[..., Any]) -> Check:
    def check(
        x: Any, rank: Any, data: Any = None, summarize: int | None = None, message: str | None = None,
        name: str | None = None,
    ) -> Operation:  # fmt: skip
        with get_default_graph().name_scope(name or label):
            x, rank = convert_to_tensor(x, name="x"), convert_to_tensor(rank, dtypes.int32, "rank")
            wanted = constant_value(rank)
            if wanted is not None and wanted.ndim:
                raise ValueError(f"{label}: rank must be a scalar, got shape {wanted.shape}")
            if wanted is not None and x._shape is not None:
                if not numpy(len(x._shape), int(wanted)):
                    raise ValueError(
                        f"{_before(message)}{x.name}: rank must be {sign} {int(wanted)}, got {shapes.show(x._shape)}"
                    )
                return control_flow.no_op("static_checks_determined_all_ok")
            said = [f"Tensor {x.name} must have rank {sign}", rank, "Received shape: ", array.shape(x)]
            shown = _told(message, data, said)
            return control_flow.Assert(compare(array.rank(x), rank), shown, summarize=summarize)

    label = name
    check.__name__ = check.__qualname__ = name
    check.__doc__ = (
        f"An op that fails unless x's rank is {sign} `rank`; ValueError at once where the static rank says so."
    )
    return check


assert_rank = _rank_check("assert_rank", "equal to", math.equal, np.equal)
assert_rank_at_least = _rank_check("assert_rank_at_least", "at least", math.greater_equal, np.greater_equal)


def assert_rank_in(
    x: Any, ranks: Sequence[Any], data: Any = None, summarize: int | None = None, message: str | None = None,
    name: str | None = None,
) -> Operation:  # fmt: skip
    """An op that fails unless x's rank is one of `ranks`; ValueError at once where the static rank says so."""
    with get_default_graph().name_scope(name or "assert_rank_in"):
        x = convert_to_tensor(x, name="x")
        tensors = [convert_to_tensor(r, dtypes.int32, "rank") for r in ranks]
        known = [constant_value(r) for r in tensors]
        if x._shape is not None and all(k is not None for k in known):
            wanted = [int(k) for k in known if k is not None]
            if len(x._shape) not in wanted:
                raise ValueError(f"{_before(message)}{x.name}: rank must be in {wanted}, got {shapes.show(x._shape)}")
            return control_flow.no_op("static_checks_determined_all_ok")
        found = [math.equal(array.rank(x), r) for r in tensors]
        condition = found[0]
        for other in found[1:]:
            condition = math.logical_or(condition, other)
        said = [f"Tensor {x.name} must have rank in", *tensors, "Received shape: ", array.shape(x)]
        shown = _told(message, data, said)
        return control_flow.Assert(condition, shown, summarize=summarize)


def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """The tensor. Raises ValueError where its static shape is not that of a scalar."""
    with get_default_graph().name_scope(name or "assert_scalar"):
        tensor = convert_to_tensor(tensor)
        if tensor._shape != ():
            raise ValueError(
                f"{_before(message)}Expected scalar shape for {tensor.name}, saw {shapes.show(tensor._shape)}"
            )
        return tensor


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """x itself, of that static shape; InvalidArgumentError when it runs with another one."""
    return apply_op("EnsureShape", [x], {"shape": Shape(shapes.as_dims(shape))}, name or "EnsureShape")


# ---------------------------------------------------------------------- questions


def assert_proper_iterable(values: Any) -> None:
    """Raises TypeError on what is no iterable, and on what is one and not meant as a list: a tensor, array or text."""
    if isinstance(values, (Tensor, SparseTensor, np.ndarray, str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be a "proper" iterable. Found: {type(values)}')


def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and (
        tensor.dtype.is_floating or tensor.dtype.is_integer or tensor.dtype.is_complex
    )


def _neighbours(x: Any, compare: Callable[..., Tensor], name: str) -> Tensor:
    with get_default_graph().name_scope(name):
        flat = array.reshape(convert_to_tensor(x, name="x"), [-1])
        first = array_slice.strided_slice(flat, [0], [-1])
        second = array_slice.strided_slice(flat, [1], [0], end_mask=1)
        return _all(compare(first, second))


def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element, in row order, is at least the one before it; true of fewer than two."""
    return _neighbours(x, math.less_equal, name or "is_non_decreasing")


def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether each element, in row order, is above the one before it; true of fewer than two."""
    return _neighbours(x, math.less, name or "is_strictly_increasing")


def verify_tensor_all_finite(
    t: Any = None, msg: str | None = None, name: str | None = None, x: Any = None, message: str | None = None
) -> Tensor:
    """t itself; InvalidArgumentError with msg when it runs where a value is nan or infinite. x, message: new names."""
    tensor, text = (t if x is None else x), (msg if message is None else message)
    with get_default_graph().name_scope(name or "VerifyFinite"):
        tensor = convert_to_tensor(tensor, name="t")
        with get_default_graph().colocate_with(tensor.op):
            checked = control_flow.check_numerics(tensor, text or "")
            return control_flow.with_dependencies([checked], tensor)


def add_check_numerics_ops() -> Operation:
    """One op that checks every float tensor made so far. Raises ValueError inside cond and while_loop."""
    graph = get_default_graph()
    checks: list[Tensor] = []
    for operation in list(graph.get_operations()):
        for output in operation.outputs:
            if not output.dtype.is_floating or output.dtype.is_ref:
                continue
            if operation._control_flow_context is not None:
                raise ValueError("add_check_numerics_ops() is not compatible with tf.cond() or tf.while_loop()")
            with graph.control_dependencies(checks[-1:]):
                checks.append(control_flow.check_numerics(output, f"{operation.name}:{output.value_index}"))
    return control_flow.group(*checks)
