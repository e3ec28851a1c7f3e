"""tf.saved_model.main_op: what is run when a model has been loaded."""

from __future__ import annotations

from sparkflow.framework.graph import Operation
from sparkflow.ops import control_flow, variables


def main_op() -> Operation:
    """Initializes the local variables."""
    return control_flow.group(variables.local_variables_initializer())
