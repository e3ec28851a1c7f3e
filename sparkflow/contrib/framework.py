"""tf.contrib.framework: variables by name and scope, argument scopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow.contrib.arg_scopes import add_arg_scope, arg_scope, arg_scope_func_key, has_arg_scope
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.nest import flatten as nest_flatten
from sparkflow.ops.checks import assert_scalar, is_numeric_tensor
from sparkflow.ops.variable_scope import get_variable
from sparkflow.ops.variables import Variable
from sparkflow.train.checkpoint_state import list_variables, load_variable
from sparkflow.train.saver import Saver
from sparkflow.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables of a collection below a scope, and whose names end with suffix."""
    prefix = getattr(scope, "name", scope)
    pattern = (prefix or "") + ("" if suffix is None else ".*" + suffix.removesuffix(":0") + ":0$")
    return get_default_graph().get_collection(collection, pattern or None)


def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


def get_variables_to_restore(include: Sequence[str] | None = None, exclude: Sequence[str] | None = None) -> list[Any]:
    """The global variables below the scopes of include (all), but for those below the scopes of exclude."""
    kept = get_variables() if include is None else [v for scope in include for v in get_variables(scope)]
    left = {v.name for scope in exclude or () for v in get_variables(scope)}
    return [v for v in kept if v.name not in left]


def get_unique_variable(var_op_name: str) -> Any:
    """The one variable of that name. Raises ValueError where there is none, or more than one."""
    found = [v for v in get_variables(var_op_name) if v.op.name == var_op_name]
    if len(found) != 1:
        raise ValueError(f"Variable {var_op_name} does not uniquely identify a variable: {len(found)} found")
    return found[0]


def variable(name: str, shape: Any = None, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """get_variable, on a device where one is given."""
    with get_default_graph().device(device):
        return get_variable(name, shape, *args, **kwargs)


def model_variable(name: str, shape: Any = None, *args: Any, collections: Any = None, **kwargs: Any) -> Any:
    """`variable` in the collection MODEL_VARIABLES too."""
    names = [*(collections or [GraphKeys.GLOBAL_VARIABLES]), GraphKeys.MODEL_VARIABLES]
    return variable(name, shape, *args, collections=names, **kwargs)


def local_variable(initial_value: Any, validate_shape: bool = True, name: str | None = None) -> Variable:
    """A variable of LOCAL_VARIABLES, not trained."""
    return Variable(
        initial_value,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
    )


def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Any:
    """A function of a session that restores the variables (a list, or {name in the checkpoint: variable})."""
    named = dict(var_list) if isinstance(var_list, dict) else {v.op.name: v for v in var_list}
    if ignore_missing_vars:
        there = {name for name, _ in list_variables(model_path)}
        named = {name: v for name, v in named.items() if name in there}
    saver = Saver(named, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


class nest:
    """tf.contrib.framework.nest."""

    flatten = staticmethod(nest_flatten)
