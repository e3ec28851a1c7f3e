"""tf.contrib.framework: variables by name and scope, argument scopes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sparkflow.contrib import nest
from sparkflow.contrib.arg_scopes import (
    add_arg_scope,
    arg_scope,
    arg_scope_func_key,
    arg_scoped_arguments,
    current_arg_scope,
    has_arg_scope,
)
from sparkflow.contrib.framework_assign import (
    assign_from_checkpoint,
    assign_from_checkpoint_fn,
    assign_from_values,
    assign_from_values_fn,
)
from sparkflow.deprecation import deprecated, deprecated_arg_values, deprecated_args
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.conversions import convert_to_tensor_or_sparse_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops.array_made import argsort, is_tensor, sort
from sparkflow.ops.checks import assert_same_float_dtype, assert_scalar, is_numeric_tensor
from sparkflow.ops.control_flow_cond import cond
from sparkflow.ops.critical_section import CriticalSection
from sparkflow.ops.script import py_func
from sparkflow.ops.variable_scope import get_variable
from sparkflow.ops.variables import Variable
from sparkflow.train.checkpoint_reader import load_checkpoint
from sparkflow.train.checkpoint_state import list_variables, load_variable
from sparkflow.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)
from sparkflow.train.warm_start import init_from_checkpoint
from sparkflow_runtime.wire.devices import DeviceSpec


class VariableDeviceChooser:
    """A device function for variables: /job:ps on num_tasks tasks in turn, in the order they are made; 0: no task."""

    def __init__(
        self, num_tasks: int = 0, job_name: str = "ps", device_type: str = "CPU", device_index: int = 0,
        replica: int | None = None,
    ):  # fmt: skip
        self._job, self._replica, self._type, self._index = job_name, replica, device_type, device_index
        self._num_tasks, self._next = num_tasks, 0

    def __call__(self, op: Any) -> str:
        task = None
        if self._num_tasks > 0:
            task, self._next = self._next, (self._next + 1) % self._num_tasks
        return DeviceSpec(self._job, self._replica, task, self._type, self._index).to_string()


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


@add_arg_scope
def variable(
    name: str, shape: Any = None, dtype: Any = None, initializer: Any = None, regularizer: Any = None,
    trainable: bool = True, collections: Any = None, caching_device: Any = None, device: Any = None,
    partitioner: Any = None, custom_getter: Any = None, use_resource: bool | None = None, **kwargs: Any,
) -> Any:  # fmt: skip
    """get_variable in the collections (GLOBAL_VARIABLES), on a device, by name or function, where one is given."""
    names = [collections] if isinstance(collections, str) else collections
    with get_default_graph().device("" if device is None else device):
        return get_variable(
            name, shape, dtype, initializer, regularizer, trainable,
            list(dict.fromkeys([GraphKeys.GLOBAL_VARIABLES] if names is None else names)),
            caching_device=caching_device, partitioner=partitioner, custom_getter=custom_getter,
            use_resource=use_resource, **kwargs,
        )  # fmt: skip


@add_arg_scope
def model_variable(name: str, shape: Any = None, *args: Any, collections: Any = None, **kwargs: Any) -> Any:
    """`variable` in the collections GLOBAL_VARIABLES and MODEL_VARIABLES too."""
    names = [collections] if isinstance(collections, str) else collections or []
    kept = [*names, GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(name, shape, *args, collections=kept, **kwargs)


def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Variable:
    """A variable of LOCAL_VARIABLES, not trained."""
    return Variable(
        initial_value,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


def global_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Variable:
    """A variable of GLOBAL_VARIABLES, not trained."""
    return Variable(initial_value, trainable=False, validate_shape=validate_shape, name=name, use_resource=use_resource)


def add_model_variable(var: Any) -> None:
    """Into the collection MODEL_VARIABLES, unless it is there."""
    if var not in get_model_variables():
        get_default_graph().add_to_collection(GraphKeys.MODEL_VARIABLES, var)


def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    return get_variables(scope, suffix)


def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Those whose name, or the last part of it, is given_name."""
    return [v for v in get_variables(scope) if f"/{v.op.name}".endswith(f"/{given_name}")]


def get_variable_full_name(var: Any) -> str:
    """Its name in checkpoints, which the parts of a partitioned variable share."""
    info = var._get_save_slice_info() if hasattr(var, "_get_save_slice_info") else None
    return var.op.name if info is None else info.full_name


def filter_variables(
    var_list: Sequence[Any], include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None, reg_search: bool = True,
) -> list[Any]:  # fmt: skip
    """Those whose name fits one of include_patterns (all) and none of exclude_patterns, which are looked for anywhere
    in it, or, without reg_search, at its beginning."""
    fits = re.search if reg_search else re.match
    kept = [v for v in var_list if include_patterns is None or any(fits(p, v.name) for p in include_patterns)]
    return [v for v in kept if not any(fits(p, v.name) for p in exclude_patterns or ())]


def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The global step, or the given one if it may be one."""
    if global_step_tensor is None:
        return get_global_step(graph)
    assert_global_step(global_step_tensor)
    return global_step_tensor


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """The tensor. Raises ValueError where it is no integer, or no scalar."""
    found = convert_to_tensor(tensor)
    if not found.dtype.base_dtype.is_integer:
        raise ValueError(f"Expected integer type for {found.name}, received type: {found.dtype}.")
    return assert_scalar(found, name=name)


def get_name_scope() -> str:
    """The current name scope, without a slash at its end."""
    return get_default_graph().get_name_scope()


def smart_constant_value(pred: Any) -> Any:
    """True or False where pred is known now, None where it is known when the graph runs. TypeError on anything else."""
    if isinstance(pred, Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    if pred in (0, 1):
        return bool(pred)
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred!r}")


def smart_cond(pred: Any, true_fn: Any = None, false_fn: Any = None, name: str | None = None) -> Any:
    """cond, but only the branch that is taken is made where pred is known now."""
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError("`true_fn` and `false_fn` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return cond(pred, true_fn=true_fn, false_fn=false_fn, name=name)
    return true_fn() if known else false_fn()
