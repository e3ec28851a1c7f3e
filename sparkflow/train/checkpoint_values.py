"""Checkpoints of other models: read tensor by tensor, and as the first values of variables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.ops import io, state
from sparkflow.ops.variables import global_variables
from sparkflow.train.checkpoint_state import list_variables, load_variable, prefix_of, read_index
from sparkflow.train.saver_graph import Saveable, saveables
from sparkflow_runtime.wire.dtypes import DType, as_dtype


def init_from_checkpoint(ckpt_dir_or_file: str, assignment_map: Mapping[str | None, Any]) -> None:
    """Have the initializers of variables take values of a checkpoint. To be called before they run.

    assignment_map: from a tensor's name in the checkpoint to a variable, its name, or the list of its parts; or from
    "scope/" there to "scope/" here, "/" being everything. Raises ValueError where a tensor is missing, a variable is
    unknown, or shapes differ.
    """
    path = prefix_of(ckpt_dir_or_file)
    there = {name: tuple(shape) for name, shape in list_variables(path)}
    for name, found in _pairs(assignment_map, there):
        for part in saveables({name: found}):
            assert isinstance(part, Saveable)  # of variables
            _take(path, part, there)


def _pairs(assignment_map: Mapping[str | None, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """(name in the checkpoint, variable, partitioned variable or list of parts)."""
    here = _by_name()
    for old, new in assignment_map.items():
        if isinstance(new, str) and new.endswith("/"):
            yield from _scope(old or "", new, here, there)
        elif isinstance(new, str):
            if new not in here:
                raise ValueError(f"Tensor {new} is not found among the variables of the graph")
            yield old or new, here[new]
        else:
            yield old or "", new


def _scope(old: str, new: str, here: Mapping[str, Any], there: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if not old.endswith("/"):
        raise ValueError(
            f"Assignment map with scope only name {new} should map to scope only {old}. Should be 'scope/'."
        )
    for name, variable in here.items():
        if name.startswith(new.lstrip("/")):
            wanted = old.lstrip("/") + name[len(new.lstrip("/")) :]
            if wanted not in there:
                raise ValueError(f"Tensor {wanted} ({name} here) is not found in the checkpoint")
            yield wanted, variable


def _by_name() -> dict[str, Any]:
    """Variables by name, parts of one under the whole's name."""
    found: dict[str, Any] = {}
    for variable in global_variables():
        info = variable._get_save_slice_info()
        if info is None:
            found[variable.op.name] = variable
        else:
            found.setdefault(info.full_name, []).append(variable)
    return found


def _take(path: str, part: Saveable, there: Mapping[str, tuple[int, ...]]) -> None:
    """Another initial value, and another Assign, for a variable or a part of one."""
    variable = part.variable
    if part.name not in there:
        raise ValueError(f"Tensor {part.name} is not found in {path} checkpoint: {sorted(there)}")
    if part.full_shape is not None and there[part.name] != tuple(part.full_shape):
        raise ValueError(
            f"Shape of variable {variable.op.name} {tuple(part.full_shape)} doesn't match with shape of tensor "
            f"{part.name} {there[part.name]} from checkpoint reader."
        )
    graph = get_default_graph()
    with graph.control_dependencies(None), graph.colocate_with(variable.op), graph.name_scope("checkpoint_initializer"):
        value = io.restore_v2(path, [part.name], [part.spec], [part.dtype])[0]
        variable._initializer_op = state.assign(variable._ref(), value, name="assign").op
        variable._initial_value = variable._initializer_op.inputs[1]


class CheckpointReader:
    """What a checkpoint holds. Raises NotFoundError where there is none."""

    def __init__(self, prefix: str):
        self._prefix, self._entries = prefix, read_index(prefix).entries

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        return {name: list(entry.shape) for name, entry in self._entries.items()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        return {name: as_dtype(entry.dtype) for name, entry in self._entries.items()}

    def has_tensor(self, tensor_str: str) -> bool:
        return tensor_str in self._entries

    def get_tensor(self, tensor_str: str) -> Any:
        """Its value. Raises NotFoundError where it is not there."""
        return load_variable(self._prefix, tensor_str)

    def debug_string(self) -> bytes:
        lines = [f"{name} ({as_dtype(e.dtype).name}) {list(e.shape)}" for name, e in sorted(self._entries.items())]
        return "\n".join(lines).encode()


NewCheckpointReader = CheckpointReader


def load_checkpoint(ckpt_dir_or_file: str) -> CheckpointReader:
    """Of a checkpoint, or of the newest one in a folder."""
    return CheckpointReader(prefix_of(ckpt_dir_or_file))
