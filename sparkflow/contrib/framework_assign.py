"""Ops and functions that give variables the values of arrays or of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, control_flow
from sparkflow.train.checkpoint_reader import NewCheckpointReader
from sparkflow.train.checkpoint_state import list_variables
from sparkflow.train.saver import Saver


def _assigned(values: Mapping[Any, np.ndarray]) -> tuple[Any, dict[Tensor, np.ndarray]]:
    """(an op that gives the variables these values, what it must be fed)."""
    ops, feeds = [], {}
    for var, value in values.items():
        given = array.placeholder(var.dtype.base_dtype, var.shape, name=f"placeholder/{var.op.name}")
        ops.append(var.assign(given).op)
        feeds[given] = value
    return control_flow.group(*ops), feeds


def assign_from_values(var_names_to_values: Mapping[str, np.ndarray]) -> tuple[Any, dict[Tensor, np.ndarray]]:
    """(an op that gives the variables of these names such values, what it must be fed).

    Raises ValueError where there is no such variable, or a value has not as many elements.
    """
    found = {}
    for name, value in var_names_to_values.items():
        listed = get_default_graph().get_collection(GraphKeys.GLOBAL_VARIABLES, name)
        exact = [v for v in listed if v.op.name == name] or listed
        if len(exact) != 1:
            raise ValueError(f"Variable {name} doesn't uniquely identify a variable: {len(exact)} found")
        found[exact[0]] = np.reshape(value, exact[0].shape.as_list())
    return _assigned(found)


def assign_from_values_fn(var_names_to_values: Mapping[str, np.ndarray]) -> Callable[[Any], Any]:
    """A function of a session that gives the variables of these names such values."""
    op, feeds = assign_from_values(var_names_to_values)
    return lambda session: session.run(op, feeds)


def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Tensor, np.ndarray]]:
    """(an op that gives the variables a checkpoint's values, what it must be fed).

    var_list: variables, or {name in the checkpoint: variable, or list of the parts of one}. Raises ValueError on a
    variable that the checkpoint lacks, unless ignore_missing_vars, and on another shape.
    """
    reader = NewCheckpointReader(model_path)
    if isinstance(var_list, Mapping):
        listed = {n: v if isinstance(v, (list, tuple)) else [v] for n, v in var_list.items()}
        pairs = [(name, var) for name, given in listed.items() for var in given]
    else:
        pairs = [(v.op.name if _slice(v) is None else _slice(v).full_name, v) for v in var_list]
    found = {}
    for name, var in pairs:
        if not reader.has_tensor(name):
            if not ignore_missing_vars:
                raise ValueError(f"Checkpoint is missing variable [{name}]")
            logging.warning("Checkpoint is missing variable [%s]", name)
            continue
        value, part = reader.get_tensor(name), _slice(var)
        if part is not None:
            value = value[tuple(slice(o, o + n) for o, n in zip(part.var_offset, part.var_shape))]
        if list(value.shape) != var.shape.as_list():
            raise ValueError(f"{name} is {list(value.shape)} in {model_path}, the variable {var.shape.as_list()}")
        found[var] = value
    return _assigned(found)


def _slice(variable: Any) -> Any:
    """Which part of a partitioned variable it is, if any."""
    return variable._get_save_slice_info() if hasattr(variable, "_get_save_slice_info") else None


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
