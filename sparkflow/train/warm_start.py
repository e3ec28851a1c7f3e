"""Variables that begin with the values of a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.ops import io, state
from sparkflow.ops.partitioned_variables import PartitionedVariable
from sparkflow.ops.variables import Variable, global_variables
from sparkflow.train.checkpoint_reader import CheckpointReader
from sparkflow.train.checkpoint_state import prefix_of


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Mapping[str | None, Any] | Sequence[Any]) -> None:
    """The initializers of variables read a checkpoint from now on. Call it before the op that initializes is made.

    assignment_map: tensor of the checkpoint -> Variable, PartitionedVariable, or name of a variable of the graph;
    "scope/" -> "other/" for all variables below `other/` ("/" is the checkpoint's root).

    Raises ValueError on a tensor that the checkpoint lacks, a variable that the graph lacks, another shape or dtype.
    """
    reader, prefix = CheckpointReader(prefix_of(ckpt_dir_or_file)), prefix_of(ckpt_dir_or_file)
    items = assignment_map.items() if isinstance(assignment_map, Mapping) else assignment_map
    for key, target in items:
        for name, variable, full in _pairs(str(key or "/"), target):
            _set_initializer(reader, prefix, name, variable, full)


def _pairs(key: str, target: Any) -> Iterator[tuple[str, Variable, str]]:
    """(tensor in the checkpoint, variable or part of one, its full name)."""
    if isinstance(target, str) and key.endswith("/"):
        if target and not target.endswith("/"):
            raise ValueError(f"Assignment map: {key!r} is a scope, so {target!r} must end with '/' too")
        below = "" if target == "/" else target
        for variable in global_variables():
            full = _full_name(variable)
            if full.startswith(below):
                yield key.removeprefix("/") + full[len(below) :], variable, full
        return
    for variable in _named(target) if isinstance(target, str) else _parts(target):
        yield key, variable, _full_name(variable)


def _named(name: str) -> list[Variable]:
    found = [v for v in global_variables() if _full_name(v) == name.removesuffix(":0")]
    if not found:
        have = ", ".join(sorted({_full_name(v) for v in global_variables()})) or "none"
        raise ValueError(f"Assignment map: there is no variable {name!r} in the graph; it has {have}")
    return found


def _parts(target: Any) -> list[Variable]:
    if isinstance(target, (list, PartitionedVariable)):
        return list(target)
    if not isinstance(target, Variable):
        raise TypeError(f"Assignment map: expected a variable or its name, got {type(target).__name__}")
    return [target]


def _full_name(variable: Variable) -> str:
    info = variable._get_save_slice_info()
    return variable.op.name if info is None else info.full_name


def _set_initializer(reader: CheckpointReader, prefix: str, name: str, variable: Variable, full: str) -> None:
    shapes = reader.get_variable_to_shape_map()
    if name not in shapes:
        raise ValueError(f"Assignment map: {name!r} is not found in checkpoint {prefix}; there are {', '.join(shapes)}")
    info = variable._get_save_slice_info()
    shape = variable.shape.as_list() if info is None else list(info.full_shape)
    dtype = reader.get_variable_to_dtype_map()[name]
    if shape != shapes[name] or dtype is not variable.dtype.base_dtype:
        raise ValueError(
            f"Variable {full!r} is {variable.dtype.base_dtype.name}{shape}, which doesn't match {name!r} in checkpoint "
            f"{prefix}, {dtype.name}{shapes[name]}"
        )
    graph = get_default_graph()
    with graph.name_scope(None), graph.device(None), graph.control_dependencies(None), graph.colocate_with(variable.op):
        scope = f"init_from_checkpoint/{variable.op.name}"
        (value,) = io.restore_v2(prefix, [name], ["" if info is None else info.spec], [dtype], name=f"{scope}/restore")
        variable._initializer_op = state.assign(variable._variable, value, name=f"{scope}/assign").op
        variable._initial_value = value
