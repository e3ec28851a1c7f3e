"""Lists of tensors and optionals as values: what their ops give, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import apply_op
from sparkflow.framework.graph import Graph
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import InvalidArgumentError


def _op(name: str, *inputs: Any, **attrs: Any) -> Any:
    return apply_op(name, list(inputs), {"element_dtype": tf.float32, **attrs})


def _run(fetch: Any) -> Any:
    with tf.Session() as session:
        return session.run(fetch)


def _rows() -> Any:
    return _op("TensorListFromTensor", tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [2])


def test_elements(graph: Graph) -> None:
    rows = _rows()
    changed = _op("TensorListSetItem", rows, 1, tf.constant([7.0, 8.0]))
    found = _run([_op("TensorListGetItem", lst, 1, [2]) for lst in (rows, changed)])
    assert [f.tolist() for f in found] == [[3, 4], [7, 8]]  # the first list is as it was


def test_pushing_and_popping(graph: Graph) -> None:
    empty = apply_op("EmptyTensorList", [[2], 2], {"element_dtype": tf.float32})
    one = _op("TensorListPushBack", empty, tf.constant([1.0, 2.0]))
    two = _op("TensorListPushBack", one, tf.constant([3.0, 4.0]))
    rest, last = _op("TensorListPopBack", two, [2])
    length = apply_op("TensorListLength", [rest])
    assert [np.asarray(v).tolist() for v in _run([length, last])] == [1, [3, 4]]
    with pytest.raises(InvalidArgumentError, match="at most 2"):
        _run(apply_op("TensorListLength", [_op("TensorListPushBack", two, tf.constant([5.0, 6.0]))]))
    with pytest.raises(InvalidArgumentError, match="empty list"):
        _run(_op("TensorListPopBack", empty, [2])[1])


def test_what_was_not_set_is_zeros(graph: Graph) -> None:
    some = _op("TensorListSetItem", _op("TensorListReserve", -1, 3), 1, tf.constant([7.0, 8.0]))
    assert _run(_op("TensorListStack", some, -1)).tolist() == [[0, 0], [7, 8], [0, 0]]
    assert _run(_op("TensorListStack", _op("TensorListReserve", [2], 0), [2])).shape == (0, 2)
    with pytest.raises(InvalidArgumentError, match="its shape is not known"):
        _run(_op("TensorListGetItem", _op("TensorListReserve", -1, 3), 0, -1))


def test_pieces(graph: Graph) -> None:
    rows = _rows()
    assert _run(_op("TensorListGather", rows, [2, 0], [2])).tolist() == [[5, 6], [1, 2]]
    spread = _op("TensorListScatterV2", tf.constant([[1.0], [2.0]]), [3, 0], [1], -1)
    assert _run(_op("TensorListStack", spread, [1])).ravel().tolist() == [2, 0, 0, 1]
    split = _op("TensorListSplit", tf.constant([1.0, 2.0, 3.0]), [-1], tf.constant([1, 2], tf.int64))
    whole, lengths = _op("TensorListConcatV2", split, [-1], tf.constant([], tf.int64))
    assert [v.tolist() for v in _run([whole, lengths])] == [[1, 2, 3], [1, 2]]
    assert _run(apply_op("TensorListElementShape", [rows], {"shape_type": tf.int32})).tolist() == [2]
    longer = _op("TensorListResize", rows, 4)
    assert _run(_op("TensorListStack", longer, [2]))[3].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda rows: _op("TensorListGetItem", rows, 3, [2]), "element 3 in a list with 3"),
        (lambda rows: _op("TensorListStack", _op("TensorListSetItem", rows, -1, [1.0, 2.0]), [2]), "modify element -1"),
        (lambda rows: _op("TensorListStack", rows, [2], num_elements=2), "2 elements are wanted, and the list has 3"),
    ],
)
def test_refusals(make: Any, text: str, graph: Graph) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        _run(make(_rows()))


def test_gradients_of_lists(graph: Graph) -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    rows = _op("TensorListFromTensor", x, [2])
    changed = _op("TensorListSetItem", rows, 0, _op("TensorListGetItem", rows, 1, [2]) * 10.0)
    longer = _op("TensorListPushBack", changed, x[0] * x[1])
    y = tf.reduce_sum(_op("TensorListStack", longer, [2]))
    assert _run(tf.gradients(y, x)[0]).tolist() == [[3, 4], [12, 13]]


def test_gradients_of_pieces(graph: Graph) -> None:
    x = tf.constant([1.0, 2.0, 3.0])
    split = _op("TensorListSplit", x, [-1], tf.constant([1, 2], tf.int64))
    whole, _ = _op("TensorListConcatV2", split, [-1], tf.constant([], tf.int64))
    spread = _op("TensorListScatterV2", tf.expand_dims(x, 1), [2, 0, 1], [1], -1)
    twice = _op("TensorListGather", _op("TensorListResize", spread, 4), [1, 1, 2], [1])
    found = _run([tf.gradients(tf.reduce_sum(whole * whole), x)[0], tf.gradients(tf.reduce_sum(twice), x)[0]])
    assert [f.tolist() for f in found] == [[2, 4, 6], [1, 0, 2]]


def test_optionals(graph: Graph) -> None:
    some = apply_op("OptionalFromValue", [[tf.constant(3.0)]], {"Toutput_types": [tf.float32]})
    none = apply_op("OptionalNone")
    assert _run([apply_op("OptionalHasValue", [o]) for o in (some, none)]) == [True, False]
    attrs = {"output_types": [tf.float32], "output_shapes": [Shape(())]}
    total = apply_op("AddN", [[some, some, none]])
    zeros = apply_op("ZerosLike", [some])
    found = _run([apply_op("OptionalGetValue", [o], attrs)[0] for o in (some, total, zeros)])
    x = tf.constant(2.0)
    kept = apply_op("OptionalFromValue", [[x * x]], {"Toutput_types": [tf.float32]})
    assert _run(tf.gradients(apply_op("OptionalGetValue", [kept], attrs)[0], x)[0]) == 4
    assert [float(f) for f in found] == [3, 6, 0]
    with pytest.raises(InvalidArgumentError, match="does not have a value"):
        _run(apply_op("OptionalGetValue", [none], attrs)[0])
