"""tf.saved_model.main_op: what is run when a model has been loaded."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Operation, get_default_graph
from sparkflow.framework.scopes import control_dependencies
from sparkflow.ops import control_flow, variables
from sparkflow.ops.lookup_initializers import tables_initializer


def main_op() -> Operation:
    """Initializes all variables, local ones too, and fills all tables.

    It runs after the model's variables have been restored, and so gives these their first values again. Of a model
    whose variables are to stay as they were saved take tf.group(tf.local_variables_initializer(),
    tf.tables_initializer()).
    """
    starts = variables.global_variables_initializer(), variables.local_variables_initializer(), tables_initializer()
    return control_flow.group(*starts)


def main_op_with_restore(restore_op_name: Any) -> Operation:
    """main_op, then the restore op, whose name (or which) is given: the variables it names have what it restores."""
    with control_dependencies([main_op()]):
        return control_flow.group(get_default_graph().as_graph_element(restore_op_name))
