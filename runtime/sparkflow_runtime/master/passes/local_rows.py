"""Tables beside the layer that takes their rows: each row is looked up, multiplied and summed once, as if it travelled.

Of a batch whose ids repeat, a wide layer multiplies each distinct row once (spread_products.py), and the sums by id of
its gradient are made without the gradient of the matrix. That takes what distinct_rows.py makes of tables on another
task; here the look-ups and sums stay where they are. It is done where a model trains so: the rows of the tables go to a
ConcatV2 of columns and this to a product, and what an optimizer, or a ring (kernels/gathered_rows.py), sums by the same
ids are columns of that product's gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from sparkflow_runtime.master.passes.column_sums import columns_of, summed
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.master.passes.spread_products import LEAST_COLUMNS, LEAST_WIDTH
from sparkflow_runtime.master.passes.travelling import Lookup, Sum
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import on_cpu, task_of
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import static_shape

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.distinct_rows import Packer

_GATHER = "_RowsToGather"
_DESCENT = "_SparseApplyGradientDescent"
_SUMS = frozenset(["UnsortedSegmentSum", _DESCENT])
_NEEDED = (("GatherV2",), ("ConcatV2",), (*_SUMS, _GATHER), ("MatMul", "_FusedMatMul"))
_FLOAT = dtypes.float32.as_datatype_enum


def may_have(graph: GraphDef) -> bool:
    found = {n.op for n in graph.node}
    return all(not found.isdisjoint(some) for some in _NEEDED)


class _Given(NamedTuple):
    """A _RowsToGather and what it is given of each table."""

    node: NodeDef
    sums: list[Sum]


class LocalRows:
    """lookups, sums: as distinct_rows.py moves them; both without those of a ring, which `give` sees to."""

    def __init__(self, packer: Packer):
        self._packer, self._nodes = packer, packer.nodes
        sums = [one for n in packer.graph.node if n.op in _SUMS and (one := self._sum(n))]
        self._given = [given for n in packer.graph.node if n.op == _GATHER and (given := self._gather(n))]
        every = [*sums, *(one for giver in self._given for one in giver.sums)]
        wanted = {e for one in every if self._is_of_layer(one) for e in packer.same_ids(one.ids)}
        concats = [n for n in packer.graph.node if n.op == "ConcatV2"] if wanted else []
        self.lookups = [one for n in concats for one in self._lookups(n, wanted)]
        known = {e for one in self.lookups for e in packer.same_ids(one.ids)}
        self.sums = [one for one in sums if self._is_of_layer(one) and not known.isdisjoint(packer.same_ids(one.ids))]
        self._given = [given for given in self._given if self._is_worth(given, known)]

    @property
    def names(self) -> set[str]:
        """Of all nodes that change."""
        nodes = [*(it.node for it in self.lookups), *(one.node for one in self.sums), *(g.node for g in self._given)]
        return {node.name for node in nodes}

    def give(self) -> None:
        """What a ring's workers exchange becomes what is made for the layer."""
        packer = self._packer
        for node, sums in self._given:
            home = task_of(node.device)
            pack, of = packer.pack(home, home, [one.ids for one in sums], flat=True)
            flat = summed(packer, sums, pack.name, of, home, home, sums[0].key[2])
            waited = [e for e in node.input if is_control(e)]
            head = packer.make("_HeadOfRows", home, [pack.name, edge(pack.name, 1), *waited], {"of": of}, home)
            packer.gone.add(node.name)
            packer.renamed |= {f"{node.name}:0": head, f"{node.name}:1": flat, f"^{node.name}": f"^{head}"}

    # ------------------------------------------------------------------ what there is

    def _sum(self, node: NodeDef) -> Sum | None:
        """Of an optimizer."""
        packer, home = self._packer, task_of(node.device)
        found = packer.sums.of(node, alone=False)
        if node.op == _DESCENT:
            rows, ids, behind = node.input[2], node.input[3], tuple[str, ...]()
        elif found is not None:
            rows, ids, behind = found
        else:
            return None
        row = packer.row(rows)
        if packer.task_of_edge(rows) != home or row is None or not self._is_plain(node, node.attr["T"].type):
            return None
        if packer.task_of_edge(ids) not in (None, home):
            return None
        return Sum(node, rows, ids, row, (home, home, packer.carried_as(rows), _FLOAT), behind)

    def _gather(self, node: NodeDef) -> _Given | None:
        if not node.attr["distinct"].b or not self._is_plain(node, node.attr["T"].type):
            return None
        inputs, n, home = data_inputs(node), node.attr["N"].i, task_of(node.device)
        rows = [self._packer.row(e) for e in inputs[n:]]
        if any(self._packer.task_of_edge(e) != home for e in inputs[n:]):
            return None
        if any(self._packer.task_of_edge(e) not in (None, home) for e in inputs[:n]):
            return None
        key = home, home, self._packer.carried_as(inputs[n]), _FLOAT
        sums = [Sum(node, e, ids, row, key, ()) for ids, e, row in zip(inputs, inputs[n:], rows) if row is not None]
        return _Given(node, sums) if len(sums) == n else None

    def _is_plain(self, node: NodeDef, kind: int) -> bool:
        free = node.name not in self._packer.kept and not self._packer.is_fed(node.name)
        return free and kind == _FLOAT and on_cpu(node.device) and not self._packer.context[node.name]

    def _is_of_layer(self, one: Sum) -> bool:
        """Whether its rows are columns of the gradient that a wide layer gives what it multiplied, or several do."""
        matrix, _ = columns_of(self._packer, one)
        total = self._nodes.get(node_name(matrix)) if matrix else None
        if total is None or total.op != "AddN":
            return total is not None and self._is_of_product(total)
        return any(self._is_of_product(self._nodes[node_name(e)]) for e in self._own(total))

    def _own(self, node: NodeDef) -> list[str]:
        return [e for e in data_inputs(node) if self._packer.task_of_edge(e) is not None]

    def _is_of_product(self, node: NodeDef) -> bool:
        if node.op != "MatMul" or not node.attr["transpose_b"].b:
            return False
        weights = static_shape(self._nodes, node.input[1])
        return weights is not None and len(weights) == 2 and (weights[1] or 0) >= LEAST_COLUMNS

    def _is_worth(self, given: _Given, known: set[str]) -> bool:
        mine = [one for one in given.sums if self._is_of_layer(one)]
        shared = [one for one in mine if not known.isdisjoint(self._packer.same_ids(one.ids))]
        return 2 * len(shared) > len(given.sums)

    def _lookups(self, concat: NodeDef, wanted: set[str]) -> list[Lookup]:
        """All that a ConcatV2 of columns takes, if it goes to a product and nobody else takes their rows."""
        axis: Any = constant(self._nodes, data_inputs(concat)[-1], self._packer.feeds)
        shape, users = static_shape(self._nodes, concat.name), self._packer.regions.consumers
        if axis is None or axis.size != 1 or int(axis.ravel()[0]) not in (1, -1) or shape is None or len(shape) != 2:
            return []
        if not any(_multiplies(user, concat.name) for user, _ in users[concat.name]):
            return []
        taken = [self._nodes[node_name(e)] for e in self._own(concat)[:-1]]
        gathers = [n for n in taken if n.op == "GatherV2"]
        found = [one for n in gathers if (one := self._lookup(n, wanted))]
        alone = all(user is concat for n in gathers for user, e in users[n.name] if not is_control(e))
        if not alone or len(found) < max(2, len(gathers)) or len({n.name for n in gathers}) < len(gathers):
            return []
        return found if sum(one.row[0] for one in found) >= LEAST_WIDTH * len(found) else []

    def _lookup(self, node: NodeDef, wanted: set[str]) -> Lookup | None:
        packer, (table, ids, _) = self._packer, data_inputs(node)
        home, row = task_of(node.device), packer.row(table)
        if not self._is_plain(node, node.attr["Tparams"].type) or not packer.looks_up_rows(node):
            return None
        if row is None or len(row) != 1 or packer.task_of_edge(table) != home:
            return None
        if packer.task_of_edge(ids) not in (None, home) or wanted.isdisjoint(packer.same_ids(ids)):
            return None
        return Lookup(node, ids, row, (home, home, _FLOAT, b""), ())


def _multiplies(node: NodeDef, matrix: str) -> bool:
    return node.op in ("MatMul", "_FusedMatMul") and parse(node.input[0]) == (matrix, 0)
