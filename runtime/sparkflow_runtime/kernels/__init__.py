"""Kernels: importing this package fills the table."""

from sparkflow_runtime.kernels import (
    array,
    array_slice,
    constant,
    control_flow,
    data_flow,
    files,
    io,
    math,
    math_reduce,
    nn,
    partial,
    random,
    stacks,
    state,
    summary,
    tensor_arrays,
    training,
)
