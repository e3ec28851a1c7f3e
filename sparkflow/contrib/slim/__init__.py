"""tf.contrib.slim: the layers, losses and variables of tf.contrib by short names."""

from sparkflow.contrib import losses, metrics
from sparkflow.contrib.arg_scopes import add_arg_scope, arg_scope
from sparkflow.contrib.framework import (
    assign_from_checkpoint_fn,
    get_local_variables,
    get_model_variables,
    get_or_create_global_step,
    get_trainable_variables,
    get_unique_variable,
    get_variables,
    get_variables_to_restore,
    local_variable,
    model_variable,
    variable,
)
from sparkflow.contrib.layers import *
from sparkflow.contrib.layers import initializers, layers, regularizers, utils
from sparkflow.contrib.slim import evaluation, learning
from sparkflow.contrib.slim.learning import create_train_op
