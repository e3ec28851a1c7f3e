"""Ops that no public function makes but tf.raw_ops: those of functional graphs and of later TensorFlows."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.oracle.program import program

X = np.arange(6, dtype=np.float32).reshape(3, 2)


@program("EmptyTensorList", "TensorListPushBack", "TensorListPopBack", "TensorListLength", "TensorListStack")
def lists_that_grow(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    empty = raw.EmptyTensorList(element_shape=tf.constant([2]), max_num_elements=10, element_dtype=tf.float32)
    one = raw.TensorListPushBack(input_handle=empty, tensor=tf.constant([1.0, 2.0]))
    two = raw.TensorListPushBack(input_handle=one, tensor=tf.constant([3.0, 4.0]))
    popped = raw.TensorListPopBack(input_handle=two, element_shape=tf.constant([2]), element_dtype=tf.float32)
    stacked = raw.TensorListStack(input_handle=two, element_shape=tf.constant([2]), element_dtype=tf.float32)
    lengths = [raw.TensorListLength(input_handle=handle) for handle in (empty, two, popped.output_handle)]
    return [[stacked, popped.tensor, *lengths]]


@program(
    "TensorListFromTensor", "TensorListGetItem", "TensorListSetItem", "TensorListGather", "TensorListElementShape",
    "TensorListResize", "TensorListReserve", "TensorListScatterV2", "TensorListSplit", "TensorListConcatV2",
)  # fmt: skip
def lists_of_rows(tf: Any) -> list[Any]:
    raw, shape = tf.raw_ops, tf.constant([2])
    rows = raw.TensorListFromTensor(tensor=X, element_shape=shape)
    given = {"element_shape": shape, "element_dtype": tf.float32}
    changed = raw.TensorListSetItem(input_handle=rows, index=1, item=tf.constant([9.0, 9.0]))
    larger = raw.TensorListResize(input_handle=rows, size=4)
    made = raw.TensorListReserve(element_shape=shape, num_elements=2, element_dtype=tf.float32)
    spread = raw.TensorListScatterV2(tensor=X, indices=[2, 0, 1], element_shape=shape, num_elements=3)
    open_shape = tf.constant([-1, 2])
    parts = raw.TensorListSplit(tensor=X, element_shape=open_shape, lengths=tf.constant([1, 2], tf.int64))
    nothing = tf.constant([], tf.int64)
    joined = raw.TensorListConcatV2(
        input_handle=parts, element_shape=open_shape, leading_dims=nothing, element_dtype=tf.float32
    )
    return [[
        raw.TensorListGetItem(input_handle=rows, index=2, **given),
        raw.TensorListGetItem(input_handle=made, index=1, **given),
        raw.TensorListGather(input_handle=changed, indices=[1, 0], **given),
        raw.TensorListStack(input_handle=spread, **given),
        tf.reduce_sum(raw.TensorListElementShape(input_handle=rows, shape_type=tf.int32)),
        *(raw.TensorListLength(input_handle=handle) for handle in (larger, made, parts)),
        joined.tensor, joined.lengths,
    ]]  # fmt: skip


@program("OptionalFromValue", "OptionalGetValue", "OptionalHasValue", "OptionalNone")
def values_that_may_be_missing(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    some = raw.OptionalFromValue(components=[tf.constant([1.0, 2.0]), tf.constant(3)])
    shapes = [tf.TensorShape([2]), tf.TensorShape([])]
    found = raw.OptionalGetValue(optional=some, output_types=[tf.float32, tf.int32], output_shapes=shapes)
    return [[*found, raw.OptionalHasValue(optional=some), raw.OptionalHasValue(optional=raw.OptionalNone())]]


@program("IdentityN", "ControlTrigger", "ResizeNearestNeighborGrad", "TensorSummary")
def nodes_that_stand_for_themselves(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    both = raw.IdentityN(input=[tf.constant([1.0]), tf.constant([2, 3])])
    with tf.control_dependencies([raw.ControlTrigger()]):
        after = tf.identity(both[0])
    image = tf.constant(np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1))
    smaller = [
        raw.ResizeNearestNeighborGrad(grads=image, size=[2, 3], align_corners=corners, half_pixel_centers=centers)
        for corners, centers in ((False, False), (True, False), (False, True))
    ]
    summary = raw.TensorSummary(tensor=[1.0, 2.0], description="d", labels=["l"], display_name="x")
    return [[*both, after, *smaller, summary]]


@program("InitializeTableV2")
def tables_by_hand(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    table = raw.HashTableV2(key_dtype=tf.string, value_dtype=tf.int64, shared_name="words")
    start = raw.InitializeTableV2(table_handle=table, keys=["a", "b"], values=tf.constant([1, 2], tf.int64))
    found = raw.LookupTableFindV2(table_handle=table, keys=["b", "?"], default_value=tf.constant(-1, tf.int64))
    return [[start], [found, raw.LookupTableSizeV2(table_handle=table)]]


@program("RefIdentity", "RefEnter", "RefExit")
def references(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    v = tf.Variable([1.0, 2.0], name="v")
    same = raw.RefIdentity(input=v._ref() if hasattr(v, "_ref") else v)
    inside = raw.RefEnter(data=same, frame_name="frame")
    out = raw.RefExit(data=inside)
    changed = tf.assign_add(same, [1.0, 1.0])
    return [[v.initializer], [changed], [out]]
