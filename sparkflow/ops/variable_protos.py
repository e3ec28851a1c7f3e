"""Variables as VariableDef messages: what a graph's file says of them beside their nodes."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from sparkflow.framework.conversions import VariableAggregation, VariableSynchronization
from sparkflow.framework.graph import get_default_graph
from sparkflow_runtime.wire.edges import KEPT_READ

if TYPE_CHECKING:
    from sparkflow.ops.variables import Variable

# The messages are imported where they are made: most programs never write one.


class SaveSliceInfo:
    """Which part of a partitioned variable one Variable is, for checkpoints."""

    def __init__(
        self, full_name: Any = None, full_shape: Any = None, var_offset: Any = None, var_shape: Any = None,
        save_slice_info_def: Any = None, import_scope: str | None = None,
    ):  # fmt: skip
        """save_slice_info_def: a SaveSliceInfoDef that says all of it, for the name of the whole under import_scope."""
        if save_slice_info_def is not None:
            proto = save_slice_info_def
            full_name = _prefix(import_scope) + proto.full_name
            full_shape, var_offset, var_shape = map(list, (proto.full_shape, proto.var_offset, proto.var_shape))
        self.full_name: str = full_name
        self.full_shape, self.var_offset, self.var_shape = full_shape, var_offset, var_shape

    @property
    def spec(self) -> str:
        """As SaveV2 takes it: the full shape, then offset,size for each dimension: '6 2 0,3:0,2'."""
        slices = ":".join(f"{o},{s}" for o, s in zip(self.var_offset, self.var_shape))
        return " ".join(str(d) for d in self.full_shape) + " " + slices

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A SaveSliceInfoDef, the name without export_scope; None where it is not in that scope."""
        from tensorboard.compat.proto.variable_pb2 import SaveSliceInfoDef

        if export_scope is not None and not self.full_name.startswith(export_scope):
            return None
        return SaveSliceInfoDef(
            full_name=_within(self.full_name, export_scope),
            full_shape=self.full_shape,
            var_offset=self.var_offset,
            var_shape=self.var_shape,
        )


def to_proto(variable: Variable, export_scope: str | None = None) -> Any:
    """A VariableDef with the names of its nodes, without export_scope; None where it is not in that scope."""
    from tensorboard.compat.proto.variable_pb2 import VariableDef

    if export_scope is not None and not variable.name.startswith(export_scope):
        return None
    initial = variable.initial_value
    proto = VariableDef(
        variable_name=_within(variable.name, export_scope),
        initial_value_name="" if initial is None else _within(initial.name, export_scope),
        initializer_name=_within(variable.initializer.name, export_scope),
        snapshot_name=_within(variable._snapshot.name, export_scope),
        trainable=variable.trainable,
        synchronization=variable.synchronization.value,
        aggregation=variable.aggregation.value,
    )
    info = variable._get_save_slice_info()
    if info is not None:
        proto.save_slice_info_def.CopyFrom(info.to_proto(export_scope))
    return proto


def adopt(variable: Variable, proto: Any, import_scope: str | None = None) -> None:
    """Let a Variable be the one whose nodes, which a VariableDef names, are in the graph already.

    Raises KeyError where one of them is not, TypeError where proto is no VariableDef.
    """
    from tensorboard.compat.proto.variable_pb2 import VariableDef

    if not isinstance(proto, VariableDef):
        raise TypeError(f"Variable: variable_def must be a VariableDef, got {type(proto).__name__}")
    graph, prefix = get_default_graph(), _prefix(import_scope)
    variable._graph, variable._trainable, variable._constraint = graph, proto.trainable, None
    variable._variable = graph.as_graph_element(prefix + proto.variable_name)
    variable._initializer_op = graph.as_graph_element(prefix + proto.initializer_name)
    variable._snapshot = graph.as_graph_element(prefix + proto.snapshot_name)
    variable._keeps_reads, variable._is_cached = bool(variable._snapshot.op.attrs.get(KEPT_READ)), False
    initial = proto.initial_value_name
    variable._initial_value = graph.as_graph_element(prefix + initial) if initial else None  # type: ignore[assignment]
    variable._save_slice_info = None
    keep_modes(variable, proto.synchronization, proto.aggregation)
    if proto.HasField("save_slice_info_def"):
        info = SaveSliceInfo(save_slice_info_def=proto.save_slice_info_def, import_scope=import_scope)
        variable._save_slice_info = info


def keep_modes(variable: Variable, synchronization: Any, aggregation: Any) -> None:
    """Raises ValueError on what is no mode."""
    variable.synchronization = _mode(VariableSynchronization, "synchronization", synchronization)
    variable.aggregation = _mode(VariableAggregation, "aggregation", aggregation)


def _mode(kind: type[Enum], what: str, given: Any) -> Any:
    try:
        return kind(0 if given is None else given)
    except ValueError:
        known = ", ".join(str(mode) for mode in kind)
        raise ValueError(f"Variable: Invalid variable {what} mode: {given!r}; there are {known}") from None


def _prefix(scope: str | None) -> str:
    return scope.rstrip("/") + "/" if scope else ""


def _within(name: Any, scope: str | None) -> str:
    return str(name).removeprefix(_prefix(scope))
