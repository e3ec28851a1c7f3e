"""map_fn, scan, foldl, foldr: a function applied along the first axis, in a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import math
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.functional_rows import of_rows, of_signature, stacked
from sparkflow.ops.ragged import RaggedTensor, _count
from sparkflow.ops.tensor_array import TensorArray
from sparkflow_runtime.wire import dtypes


class _Rows:
    """The rows of a structure of tensors and RaggedTensors, which all have as many."""

    def __init__(self, elems: Any, where: str):
        self.structure = elems
        leaves = nest.flatten(elems)
        self.tensors = [e if isinstance(e, RaggedTensor) else convert_to_tensor(e, name="elem") for e in leaves]
        if not self.tensors:
            raise ValueError(f"{where}: elems has no tensors")
        known: shapes.Dims = (None,)
        for tensor in self.tensors:
            dims = shapes.as_dims(tensor.shape)
            if dims == ():
                raise ValueError(f"{where}: elements must be 1+ dimensional tensors, not scalars, got {tensor}")
            known = shapes.merge(known, None if dims is None else dims[:1])
        assert known is not None
        self.known: int | None = known[0]
        self.count: Any = _count(self.tensors[0], dtypes.int32) if self.known is None else self.known
        self._parts: list[Any] = [t if isinstance(t, RaggedTensor) else self._array(t) for t in self.tensors]

    def _array(self, rows: Tensor) -> TensorArray:
        return TensorArray(rows.dtype, size=self.count, infer_shape=True).unstack(rows)

    def at(self, index: Any) -> Any:
        found = [part.read(index) if isinstance(part, TensorArray) else part[index] for part in self._parts]
        return nest.pack_sequence_as(self.structure, found)


def _arrays(types: list[Any], count: Any, infer_shape: bool) -> list[TensorArray]:
    return [TensorArray(t, size=count, dynamic_size=False, infer_shape=infer_shape) for t in types]


def _checked(fn: Any, where: str) -> None:
    if not callable(fn):
        raise TypeError(f"{where}: fn must be callable, got {fn!r}")


def map_fn(
    fn: Callable[[Any], Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """fn(row) for each row of elems (a tensor or RaggedTensor, or a structure of some of one first size), stacked.

    dtype: the types of what fn returns, in its structure, where these are not those of elems. infer_shape: what fn
    returns has one shape for all rows. fn_output_signature: TensorFlow 2's word for dtype; a RaggedTensorSpec in it
    says that rows differ in size, and makes a RaggedTensor of them, as is made of a RaggedTensor's rows without it.
    Raises TypeError where fn returns another structure than dtype says.
    """
    _checked(fn, "map_fn")
    dtype = fn_output_signature if dtype is None else dtype
    with get_default_graph().name_scope(name or "map"):
        rows = _Rows(elems, "map_fn")
        structure = elems if dtype is None else dtype
        given = [of_rows(t) for t in rows.tensors] if dtype is None else nest.flatten(dtype)
        made = [of_signature(one, infer_shape) for one in given]

        def body(i: Any, outs: list[list[TensorArray]]) -> tuple[Any, list[list[TensorArray]]]:
            found = fn(rows.at(i))
            nest.assert_same_structure(structure, found, check_types=False)
            return i + 1, [m.written(a, i, v) for m, a, v in zip(made, outs, nest.flatten(found), strict=True)]

        _, outs = while_loop(
            lambda i, _: math.less(i, rows.count),
            body,
            (0, [m.begun(rows.count) for m in made]),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        return nest.pack_sequence_as(structure, [m.made(a, rows.known) for m, a in zip(made, outs)])


def vectorized_map(fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True, warn: bool = True) -> Any:
    """map_fn of a function that may return another structure and other types than elems, which it is called for twice
    while the graph is built. There must be at least one row; the other arguments are taken for TensorFlow's sake."""
    _checked(fn, "vectorized_map")
    with get_default_graph().name_scope("vectorized_map"):
        rows = _Rows(elems, "vectorized_map")
        first = nest.map_structure(convert_to_tensor, fn(rows.at(0)))
        found = [t.dtype.base_dtype for t in nest.flatten(first)]
        stacked = map_fn(fn, elems, nest.pack_sequence_as(first, found))
        for whole, one in zip(nest.flatten(stacked), nest.flatten(first)):
            whole.set_shape(None if one._shape is None else (rows.known, *one._shape))
        return stacked


def _first(rows: _Rows, initializer: Any, at: Any) -> tuple[Any, Any, int]:
    """(structure, its values at the start as tensors, rows already used)."""
    if initializer is None:
        return rows.structure, nest.flatten(rows.at(at)), 1
    return initializer, [convert_to_tensor(v, name="initializer") for v in nest.flatten(initializer)], 0


def scan(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All values of a = fn(a, row) over the rows of elems, stacked.

    a starts as `initializer`, or as the first row, which is then the first value. reverse: from the last row to the
    first; the values stand at the places of their rows.
    """
    _checked(fn, "scan")
    with get_default_graph().name_scope(name or "scan"):
        rows = _Rows(elems, "scan")
        last = rows.count - 1
        structure, values, used = _first(rows, initializer, last if reverse else 0)
        outs = _arrays([v.dtype.base_dtype for v in values], rows.count, infer_shape)
        if used:
            outs = [a.write(last if reverse else 0, v) for a, v in zip(outs, values)]

        def body(i: Any, state: list[Tensor], outs: list[TensorArray]) -> Any:
            found = fn(nest.pack_sequence_as(structure, state), rows.at(i))
            nest.assert_same_structure(structure, found, check_types=False)
            state = [convert_to_tensor(v, s.dtype.base_dtype) for v, s in zip(nest.flatten(found), state, strict=True)]
            return (i - 1 if reverse else i + 1), state, [a.write(i, v) for a, v in zip(outs, state)]

        *_, outs = while_loop(
            (lambda i, *_: math.greater_equal(i, 0)) if reverse else (lambda i, *_: math.less(i, rows.count)),
            body,
            (last - used if reverse else used, values, outs),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
        )
        return nest.pack_sequence_as(structure, stacked(outs, rows.known))


def _fold(fn: Any, elems: Any, initializer: Any, right: bool, name: str, **how: Any) -> Any:
    _checked(fn, name)
    with get_default_graph().name_scope(name):
        rows = _Rows(elems, name)
        last = rows.count - 1
        structure, values, used = _first(rows, initializer, last if right else 0)

        def body(i: Any, state: list[Tensor]) -> Any:
            found = fn(nest.pack_sequence_as(structure, state), rows.at(i))
            return (i - 1 if right else i + 1), nest.flatten(found)

        _, state = while_loop(
            (lambda i, _: math.greater_equal(i, 0)) if right else (lambda i, _: math.less(i, rows.count)),
            body,
            (last - used if right else used, values),
            **how,
        )
        return nest.pack_sequence_as(structure, state)


def foldl(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The last value of a = fn(a, row), from the first row to the last; a starts as `initializer`, or the first row."""
    how = {"parallel_iterations": parallel_iterations, "back_prop": back_prop, "swap_memory": swap_memory}
    return _fold(fn, elems, initializer, False, name or "foldl", **how)


def foldr(
    fn: Callable[[Any, Any], Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """As foldl, from the last row to the first."""
    how = {"parallel_iterations": parallel_iterations, "back_prop": back_prop, "swap_memory": swap_memory}
    return _fold(fn, elems, initializer, True, name or "foldr", **how)
