"""The nodes with which a Saver saves and restores: SaveV2 and RestoreV2, one a task when sharded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.ops import array, array_join, control_flow, io, state
from sparkflow.ops.lookup_mutable import ChangingTable
from sparkflow.ops.partitioned_variables import PartitionedVariable
from sparkflow.ops.variables import Variable
from sparkflow.train.saveable_object import SaveableObject
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.devices import DeviceSpec
from sparkflow_runtime.wire.dtypes import DType

PARTS = "_temp"  # what the directory is called after a checkpoint in which tasks save their parts of it


@dataclass
class Saveable:
    """A variable, or a part of one, under the name it has in checkpoints."""

    name: str
    variable: Variable

    @property
    def spec(self) -> str:
        info = self.variable._get_save_slice_info()
        return "" if info is None else info.spec

    @property
    def dtype(self) -> DType:
        return self.variable.dtype.base_dtype

    @property
    def full_shape(self) -> shapes.Dims:
        """The shape of the tensor in the checkpoint."""
        info = self.variable._get_save_slice_info()
        return self.variable._shape if info is None else tuple(info.full_shape)


@dataclass
class Part:
    """One tensor of what is no variable: the keys or the values of a table, one of a SaveableObject. Its size is what
    it is when it is saved."""

    name: str
    owner: ChangingTable | SaveableObject
    ending: str  # what of its owner's it is
    tensor: Tensor
    spec: str = ""
    full_shape: shapes.Dims = None

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def variable(self) -> Tensor:
        """What stands on its device."""
        return self.owner.resource_handle if isinstance(self.owner, ChangingTable) else self.tensor


Saved = Saveable | Part


@dataclass
class SaverNodes:
    """The tensors and the op that a Saver feeds and runs, by name, so that it works on a graph that was read back."""

    filename: str
    save: str
    restore: str


def saveables(var_list: Any) -> list[Saved]:
    """What a list of variables and tables, or a dict by checkpoint name, comes to; parts of a variable share its name.

    Raises TypeError on what is neither, ValueError on a name that stands for two or a variable under two names.
    """
    named = var_list.items() if isinstance(var_list, Mapping) else [(None, v) for v in var_list]
    found = sorted((s for name, v in named for s in _saveable(name, v)), key=lambda s: s.name)
    seen: set[tuple[str, str]] = set()
    for s in found:
        if (s.name, s.spec) in seen or (s.spec and (s.name, "") in seen):
            raise ValueError(f"At least two variables have the same name: {s.name}")
        seen.add((s.name, s.spec))
    once: set[str] = set()
    for s in found:
        if isinstance(s, Saveable):
            if s.variable.name in once:
                raise ValueError(f"The same saveable will be restored with two names: {s.name}")
            once.add(s.variable.name)
    return found


def _saveable(name: str | None, value: Any) -> list[Saved]:
    if isinstance(value, (PartitionedVariable, list, tuple)):
        return [Saveable(name or _full_name(part), part) for part in value]
    if isinstance(value, ChangingTable):
        parts = value.saved_tensors().items()
        return [Part((name or value.saved_name) + end, value, end, tensor) for end, tensor in parts]
    if isinstance(value, SaveableObject):
        return [Part(s.name, value, str(i), s.tensor, s.slice_spec) for i, s in enumerate(value.specs)]
    if not isinstance(value, Variable):
        raise TypeError(
            f"A Saver takes variables, MutableHashTables, DenseHashTables and SaveableObjects, got {value!r}"
        )
    return [Saveable(name or _full_name(value), value)]


def _full_name(variable: Variable) -> str:
    info = variable._get_save_slice_info()
    return variable.op.name if info is None else info.full_name


@paused()
def build(
    found: Sequence[Saved], filename: str, name: str, sharded: bool, reshape: bool, sequentially: bool
) -> SaverNodes:
    """Add the nodes under the name scope `name`; they wait for what everything that is made now waits for."""
    graph = get_default_graph()
    with graph.name_scope(name):
        given = array.placeholder_with_default(filename, shape=(), name="filename")
        prefix = array.placeholder_with_default(given, shape=(), name="Const")
        shards = _by_task(found) if sharded else [("", list(found))]
        saved = _save_sharded(graph, prefix, shards) if sharded else _save(prefix, found)
        restored = _restore(graph, prefix, shards, reshape, sequentially)
        return SaverNodes(prefix.name, saved.name, restored.name)


def _by_task(found: Iterable[Saved]) -> list[tuple[str, list[Saved]]]:
    """(CPU of a task, what is there), in order of the tasks."""
    shards: dict[tuple[str, int, int], list[Saved]] = {}
    for s in found:
        spec = DeviceSpec.from_string(s.variable.device)
        shards.setdefault((spec.job or "", spec.replica or 0, spec.task or 0), []).append(s)
    return [(_cpu(group[0].variable.device), group) for _, group in sorted(shards.items())]


def _cpu(device: str) -> str:
    task = DeviceSpec.from_string(device)
    return DeviceSpec(task.job, task.replica, task.task, "CPU", 0).to_string()


def _save(prefix: Tensor, found: Sequence[Saved]) -> Tensor:
    """SaveV2 of all, and the prefix, to be had when it is done."""
    save = io.save_v2(prefix, [s.name for s in found], [s.spec for s in found], [_source(s) for s in found])
    return control_flow.with_dependencies([save], prefix)


def _source(s: Saved) -> Tensor:
    if isinstance(s, Part):
        return s.tensor
    return s.variable._ref() if not s.spec else s.variable.read_value()


def _save_sharded(graph: Graph, prefix: Tensor, shards: Sequence[tuple[str, list[Saved]]]) -> Tensor:
    """Each task saves what it has; when all have, the last one joins the parts."""
    with graph.device(shards[0][0]):
        parts_prefix = io.string_join([prefix, convert_to_tensor(f"{PARTS}/part")])
        count = convert_to_tensor(len(shards), name="num_shards")
    parts = []
    for i, (device, group) in enumerate(shards):
        with graph.device(device):
            parts.append(_save(io.sharded_filename(parts_prefix, i, count), group))
    with graph.device(shards[-1][0]):
        with graph.control_dependencies(parts):
            joined = io.merge_v2_checkpoints(array_join.stack(parts, name="checkpoint_prefixes"), prefix)
        with graph.control_dependencies([joined]):
            return array.identity(prefix)


def _restore(
    graph: Graph, prefix: Tensor, shards: Sequence[tuple[str, list[Saved]]], reshape: bool, sequentially: bool
) -> Operation:
    """No variable is assigned before every tensor of every task has been read and checked."""
    read = []
    for device, group in shards:
        with graph.device(device or "/device:CPU:0"):
            tensors = io.restore_v2(prefix, [s.name for s in group], [s.spec for s in group], [s.dtype for s in group])
        read.append(tensors)
    checked = (
        [control_flow.group(*(t.op for tensors in read for t in tensors[:1]), name="checked")] if len(read) > 1 else []
    )
    assigned: list[Operation] = []
    for (_, group), tensors in zip(shards, read):
        others: dict[ChangingTable | SaveableObject, dict[str, Tensor]] = {}
        for s, tensor in zip(group, tensors):
            before = checked + (assigned[-1:] if sequentially else [])
            if isinstance(s, Part):
                others.setdefault(s.owner, {})[s.ending] = tensor
                continue
            with graph.control_dependencies(before), graph.colocate_with(s.variable.op):
                assigned.append(_assign(s, tensor, reshape))
        with graph.control_dependencies(checked):
            assigned += [_taken_back(graph, owner, parts) for owner, parts in others.items()]
    return control_flow.group(*assigned, name="restore_all")


def _taken_back(graph: Graph, owner: ChangingTable | SaveableObject, parts: dict[str, Tensor]) -> Operation:
    if isinstance(owner, ChangingTable):
        return owner.restored(parts)
    with graph.device(owner.device):
        made = owner.restore([parts[str(i)] for i in range(len(owner.specs))], None)
    return made.op if isinstance(made, Tensor) else made


def _assign(s: Saveable, tensor: Tensor, reshape: bool) -> Operation:
    dims = s.variable._shape
    if reshape and shapes.fully_known(dims):
        tensor = array.reshape(tensor, list(dims or ()))
    return state.assign(s.variable, tensor, validate_shape=shapes.fully_known(dims)).op


def check_kept(most: Any, every_hours: Any, sharded: Any, saver_def: Any) -> None:
    """Raises TypeError on a Saver's setting of another type, ValueError on what is no SaverDef."""
    if saver_def is not None and not hasattr(saver_def, "filename_tensor_name"):
        raise ValueError(f"saver_def must be a SaverDef, got {saver_def!r}")
    if not isinstance(most, (Integral, type(None))):
        raise TypeError(f"Saver: max_to_keep must be a whole number or None, got {most!r}")
    if not isinstance(every_hours, Real):
        raise TypeError(f"Saver: keep_checkpoint_every_n_hours must be a number, got {every_hours!r}")
    if not isinstance(sharded, (bool, int)):
        raise TypeError(f"Saver: sharded must be a bool, got {sharded!r}")
