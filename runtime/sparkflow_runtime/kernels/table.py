"""All kernels: importing this module fills the table with those of dense and embedding models, and says where the
others are: they come with the first op that is not among these (of 70 ms, 40 are theirs).
"""

# ruff: noqa: F401

from sparkflow_runtime.kernels import (
    apply_distinct,
    array,
    array_partition,
    array_slice,
    bag_rows,
    bags,
    constant,
    control_flow,
    data_flow,
    decayed_adam,
    distinct_rows,
    embedding,
    fused,
    fused_update,
    io,
    joint_bags,
    joint_takes,
    math,
    math_reduce,
    memories,
    nn,
    nn_loops,
    nn_norm,
    parted_rows,
    partial,
    random,
    segments,
    slice_sums,
    sparse,
    spread_products,
    spread_rows,
    squares,
    stacks,
    state,
    summary,
    swap,
    tensor_arrays,
    tensor_lists,
    training,
    weighted_bags,
    wide_rows,
)
from sparkflow_runtime.kernels.registry import more_in

more_in("sparkflow_runtime.kernels.table_seldom")
