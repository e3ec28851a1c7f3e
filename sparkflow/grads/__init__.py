"""Gradients: importing this package fills the table."""

from sparkflow.grads import (
    array,
    control_flow,
    control_flow_while,
    image,
    math,
    nn,
    nn_conv,
    nn_norm,
    nn_pool,
    random,
    state,
    tensor_array,
    tensor_list,
)
