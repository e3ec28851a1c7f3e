"""Stacks and TensorArrays: what each op does, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401
from sparkflow_runtime.kernels.registry import Node, find
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.dtypes import float32, int32, string
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

FLOW = np.float32(0)


def bind(op: str, **attrs: Any) -> Any:
    row = find(op, "CPU")
    function = row.factory(Node(f"my_{op}", op, attrs, "", np, ResourceManager()))
    return function


def array(size: int = 3, dtype: Any = float32, **attrs: Any) -> Any:
    return bind("TensorArrayV3", dtype=dtype, **attrs)(np.int32(size))[0]


def write(handle: Any, index: int, value: Any) -> None:
    bind("TensorArrayWriteV3")(handle, np.int32(index), np.asarray(value, handle.dtype.np), FLOW)


def read(handle: Any, index: int, dtype: Any = float32) -> Any:
    return bind("TensorArrayReadV3", dtype=dtype)(handle, np.int32(index), FLOW)


def gather(handle: Any, *indices: int, **attrs: Any) -> Any:
    return bind("TensorArrayGatherV3", dtype=handle.dtype, **attrs)(handle, np.array(indices, np.int32), FLOW)


def grad(handle: Any, source: str = "gradients") -> Any:
    return bind("TensorArrayGradV3", source=source)(handle, FLOW)[0]


# ---------------------------------------------------------------------- stacks


def test_a_stack_is_last_in_first_out() -> None:
    stack = bind("StackV2", stack_name="s")(np.int32(-1))
    push, pop = bind("StackPushV2"), bind("StackPopV2")
    for value in (1, 2, 3):
        assert push(stack, np.float32(value)) == value
    assert [pop(stack) for _ in range(3)] == [3, 2, 1]
    with pytest.raises(InvalidArgumentError, match="'s' is empty"):
        pop(stack)


def test_a_stack_has_a_limit_and_an_end() -> None:
    stack = bind("StackV2")(np.int32(2))
    push = bind("StackPushV2")
    push(stack, 1), push(stack, 2)
    with pytest.raises(InvalidArgumentError, match=r"overflowed its max_size \(2\)"):
        push(stack, 3)
    bind("StackCloseV2")(stack)
    for use in (lambda: push(stack, 1), lambda: bind("StackPopV2")(stack)):
        with pytest.raises(InvalidArgumentError, match="has been closed"):
            use()


# ---------------------------------------------------------------------- elements


def test_elements_are_written_once_and_read_once() -> None:
    handle = array()
    write(handle, 1, [1, 2])
    with pytest.raises(InvalidArgumentError, match="index 1: it has already been written to"):
        write(handle, 1, [1, 2])
    assert read(handle, 1).tolist() == [1, 2]
    with pytest.raises(InvalidArgumentError, match=r"index 1 twice.*clear_after_read=False"):
        read(handle, 1)
    with pytest.raises(InvalidArgumentError, match="it has already been read"):
        write(handle, 1, [1, 2])


def test_an_array_that_keeps_what_was_read() -> None:
    handle = array(clear_after_read=False)
    write(handle, 0, 5)
    assert read(handle, 0) == read(handle, 0) == 5
    with pytest.raises(InvalidArgumentError, match="it has already been read"):
        write(handle, 0, 6)


@pytest.mark.parametrize("index", [-1, 3])
def test_bounds(index: int) -> None:
    handle = array()
    with pytest.raises(
        InvalidArgumentError, match=rf"write to index {index}, its size is 3 and the array is not resize"
    ):
        write(handle, index, 1)
    with pytest.raises(InvalidArgumentError, match=f"read from index {index}, its size is 3"):
        read(handle, index)


def test_a_dynamic_array_grows() -> None:
    handle = array(0, dynamic_size=True)
    write(handle, 4, 7)
    assert bind("TensorArraySizeV3")(handle, FLOW) == 5
    with pytest.raises(InvalidArgumentError, match="write to index -1"):
        write(handle, -1, 7)


def test_dtypes_and_shapes_are_checked() -> None:
    handle = array(element_shape=Shape((None, 2)), identical_element_shapes=True)
    with pytest.raises(InvalidArgumentError, match=r"of dtype int32, its dtype is float32"):
        bind("TensorArrayWriteV3")(handle, np.int32(0), np.zeros((1, 2), np.int32), FLOW)
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\), its elements have shape \[\?,2\]"):
        write(handle, 0, [1, 2, 3])
    write(handle, 0, np.zeros((4, 2)))
    with pytest.raises(InvalidArgumentError, match=r"shape \(5, 2\), its elements have shape \[4,2\]"):
        write(handle, 1, np.zeros((5, 2)))
    with pytest.raises(InvalidArgumentError, match=r"its dtype is float32, and .* reads int32"):
        read(handle, 0, int32)


def test_strings() -> None:
    handle = array(2, string)
    write(handle, 0, b"a"), write(handle, 1, b"bc")
    assert gather(handle, 1, 0).tolist() == [b"bc", b"a"]


def test_zeros_stand_for_what_was_not_written_where_their_shape_is_known() -> None:
    assert read(array(element_shape=Shape((2,))), 0).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match=r"index 0: it was not written.*full element_shape"):
        read(array(element_shape=Shape((None,))), 0)


def test_a_closed_array() -> None:
    handle = array()
    bind("TensorArrayCloseV3")(handle)
    for use in (lambda: read(handle, 0), lambda: write(handle, 0, 1), lambda: gather(handle, 0), lambda: grad(handle)):
        with pytest.raises(InvalidArgumentError, match="has already been closed"):
            use()


# ---------------------------------------------------------------------- many elements


def test_scatter_and_gather() -> None:
    handle = array(4)
    scatter = bind("TensorArrayScatterV3")
    scatter(handle, np.array([2, 0], np.int32), np.float32([[1, 2], [3, 4]]), FLOW)
    assert gather(handle, 0, 2).tolist() == [[3, 4], [1, 2]]
    with pytest.raises(InvalidArgumentError, match=r"2 indices to scatter a value of shape \(3,\)"):
        scatter(handle, np.array([1, 3], np.int32), np.zeros(3, np.float32), FLOW)
    scatter(handle, np.array([1], np.int32), np.float32([9]), FLOW)
    assert read(handle, 1).shape == ()


def test_gather_of_nothing_needs_a_shape() -> None:
    assert gather(array(0), element_shape=Shape((2, 3))).shape == (0, 2, 3)
    with pytest.raises(UnimplementedError, match="must be fully known"):
        gather(array(0), element_shape=Shape(None))


def test_gather_of_different_shapes() -> None:
    handle = array(2)
    write(handle, 0, [1, 2]), write(handle, 1, [1])
    with pytest.raises(InvalidArgumentError, match=r"Cannot gather elements of shapes \(2,\)"):
        gather(handle, 0, 1)


def test_split_and_concat() -> None:
    handle = array(3)
    split, concat = bind("TensorArraySplitV3"), bind("TensorArrayConcatV3", dtype=float32)
    value = np.arange(10, dtype=np.float32).reshape(5, 2)
    split(handle, value, np.array([2, 0, 3], np.int64), FLOW)
    joined, lengths = concat(handle, FLOW)
    assert (joined == value).all() and lengths.tolist() == [2, 0, 3] and lengths.dtype == np.int64
    with pytest.raises(InvalidArgumentError, match=r"sum to the 5 rows"):
        split(array(2), value, np.array([2, 2], np.int64), FLOW)
    with pytest.raises(InvalidArgumentError, match="2 lengths to split by, its size is 3"):
        split(array(3), value, np.array([2, 3], np.int64), FLOW)


# ---------------------------------------------------------------------- gradients


def test_gradients_add_up_in_one_array_a_source() -> None:
    handle = array(2)
    write(handle, 0, [1, 2])
    first, same, other = grad(handle), grad(handle), grad(handle, "another")
    assert first is same and first is not other
    value = np.float32([1, 1])
    for _ in range(3):
        write(first, 0, value)
    assert read(first, 0).tolist() == [3, 3] and value.tolist() == [1, 1]
    with pytest.raises(InvalidArgumentError, match="add to index 0"):
        write(other, 0, [1, 1])
        write(other, 0, [1, 1, 1])


def test_gradients_of_what_did_not_matter_are_zeros() -> None:
    """Also of elements that were cleared when they were read."""
    handle = array(3)
    write(handle, 0, [1, 2]), write(handle, 1, [1, 2, 3]), write(handle, 2, 7)
    read(handle, 1)
    made = grad(handle)
    assert [read(made, i).tolist() for i in range(3)] == [[0, 0], [0, 0, 0], 0]


def test_an_array_with_gradients_keeps_its_size() -> None:
    handle = array(1, dynamic_size=True)
    grad(handle)
    with pytest.raises(InvalidArgumentError, match="not resizeable"):
        write(handle, 1, 1)


def test_gradients_with_more_axes() -> None:
    handle = array(1, element_shape=Shape((2,)))
    write(handle, 0, [1, 2])
    made = bind("TensorArrayGradWithShape", source="g")(handle, FLOW, np.array([3], np.int32))[0]
    assert read(made, 0).shape == (3, 2)
