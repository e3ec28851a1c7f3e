"""Gradients: importing this package fills the table."""

from sparkflow.grads import (
    array,
    candidates,
    control_flow,
    control_flow_while,
    fourier,
    image,
    linalg,
    math,
    math_special,
    nn,
    nn_conv,
    nn_norm,
    nn_pool,
    random,
    segments,
    sparse,
    state,
    tables,
    tensor_array,
    tensor_list,
)
