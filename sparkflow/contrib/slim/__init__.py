"""tf.contrib.slim: the layers, losses and variables of tf.contrib by short names."""

from sparkflow.contrib import losses, metrics
from sparkflow.contrib.arg_scopes import add_arg_scope, arg_scope
from sparkflow.contrib.framework import (
    add_model_variable,
    arg_scope_func_key,
    arg_scoped_arguments,
    assert_global_step,
    assert_or_get_global_step,
    assign_from_checkpoint,
    assign_from_checkpoint_fn,
    assign_from_values,
    assign_from_values_fn,
    create_global_step,
    current_arg_scope,
    filter_variables,
    get_global_step,
    get_local_variables,
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_unique_variable,
    get_variable_full_name,
    get_variables,
    get_variables_by_name,
    get_variables_by_suffix,
    get_variables_to_restore,
    global_variable,
    has_arg_scope,
    local_variable,
    model_variable,
    variable,
)
from sparkflow.contrib.layers import *
from sparkflow.contrib.layers import initializers, layers, regularizers, utils
from sparkflow.contrib.slim import evaluation, learning, model_analyzer
from sparkflow.contrib.slim.learning import create_train_op
