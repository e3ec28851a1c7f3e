"""The graph of a function that a dataset calls, and what it takes from the graph around it."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Graph, Operation, Tensor
from sparkflow.framework.importer import import_graph_def
from sparkflow.graph_util import extract_sub_graph
from sparkflow.ops import array
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import UnimplementedError

TABLE_FILLS = ("InitializeTableV2", "InitializeTableFromTextFileV2", "LookupTableImportV2")
TABLE_TYPE = "HashTableV2"  # filled once, so a copy says what the table says


class FunctionGraph(Graph):
    """A graph whose ops may take tensors of the one around it: constants are copied, as look-up tables are with what
    fills them; others are fed, and `captured` says which placeholder stands for which."""

    building_function = True

    def __init__(self, outer: Graph):
        super().__init__()
        self._outer, self.seed = outer, outer.seed
        self.captured: dict[Tensor, Tensor] = {}
        self.fillers: list[Operation] = []
        self._copies: dict[Tensor, Tensor] = {}

    def create_op(
        self, op_type: str, inputs: list[Tensor], attrs: dict[str, Any], name: str | None = None
    ) -> Operation:
        return super().create_op(op_type, [self.own(t) for t in inputs], attrs, name)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        return super().as_graph_element(
            self.own(obj) if isinstance(obj, Tensor) else obj, allow_tensor, allow_operation
        )

    def own(self, tensor: Tensor) -> Tensor:
        """What stands for a tensor here. Raises ValueError on one of a graph that is not around this one."""
        if tensor.op.graph is self:
            return tensor
        if tensor.op.graph is not self._outer:
            if not isinstance(self._outer, FunctionGraph):
                self._check_own(tensor.op, "a function of a dataset")
            tensor = self._outer.own(tensor)  # type: ignore[attr-defined]
        known = self.captured.get(tensor, self._copies.get(tensor))
        return self._taken(tensor) if known is None else known

    def _taken(self, tensor: Tensor) -> Tensor:
        kind = tensor.dtype.base_dtype
        with self.as_default(), self.control_dependencies(None), self.name_scope(None):
            if kind is dtypes.resource:
                made = self._copies[tensor] = self._table(tensor)
                return made
            value = constant_value(tensor)
            if value is not None:
                made = self._copies[tensor] = constant(value, kind)
            else:
                made = self.captured[tensor] = array.placeholder(kind, tensor.shape)
        return made

    def _table(self, handle: Tensor) -> Tensor:
        if handle.op.type != TABLE_TYPE:
            raise UnimplementedError(
                f"A function of a dataset takes {handle.op.name!r} ({handle.op.type}) from the graph around it: of "
                "resources only tables that are filled once can be taken. Apply it to the iterator's elements instead"
            )
        fills = [op.name for op in self._outer.get_operations() if op.type in TABLE_FILLS and op.inputs[0] is handle]
        part = extract_sub_graph(self._outer.as_graph_def(), [handle.op.name, *fills])
        for node in part.node:
            node.device = ""
        made, *ops = import_graph_def(part, return_elements=[handle.name, *fills], name="captured") or []
        self.fillers += ops
        return made
