"""Gradients: importing this package fills the table."""

from sparkflow.grads import array, control_flow, control_flow_while, math, nn, random, state, tensor_array
