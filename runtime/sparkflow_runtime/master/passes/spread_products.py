"""Products of a matrix that rows are spread over, and their gradients, become nodes that do without the matrix.

Where a `_SpreadConcat` (fuse_embeddings.py) goes to products, each of these becomes a `_SpreadMatMul`, with its bias
and activation if it has some; the matrix is made only for what takes it besides, as a factorization machine does. The
product of that matrix, turned, with a gradient dz becomes a `_SpreadMatMulGrad` together with the product of dz with
the weights, turned, if that goes to nothing but `_SumToDistinct`, and to slices of columns that other layers gave: the
sums by id and those columns are outputs of it. Where several layers share the rows, as the towers of several tasks do,
each has such a node, and what was taken of the sum of their gradients is the sum of what they give (split_sums.py makes
it so where other gradients are among them). kernels/spread_products.py says what is saved.

Tables and products that are too narrow to gain stay as they are. All nodes keep their names but for those that nobody
can have asked for: they are runtime's own, and the gradient that only these take.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sparkflow_runtime.kernels import registry
from sparkflow_runtime.master.passes.regions import Regions
from sparkflow_runtime.master.passes.row_sums import constant
from sparkflow_runtime.master.passes.split_sums import split_sums
from sparkflow_runtime.wire import attrs as wire_attrs
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.devices import on_cpu
from sparkflow_runtime.wire.edges import (
    CARRIED,
    both_spellings,
    data_inputs,
    edge,
    is_control,
    node_name,
    parse,
    topological,
    with_inputs,
)
from sparkflow_runtime.wire.node_list import NodeList
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from sparkflow_runtime.wire.sizes import SHAPES, static_shape

LEAST_WIDTH, LEAST_COLUMNS = 8, 32  # of tables on average, and of a product: below, BLAS is as fast
_GIVEN = 4  # inputs of a _SpreadConcat for each task (kernels/spread_rows.py)
_FUSED = ("_nodes", "_inputs", "_outputs")  # attributes of a _FusedMatMul
_SPREAD = ("N", "order", "tables", "of", "widths", "members", "alone")  # attributes of a _SpreadConcat


def spread_products(graph: GraphDef, feeds: Collection[str] = (), kept: Collection[str] = ()) -> GraphDef:
    """A placed graph without the matrices that can be done without. kept: nodes that are fetched or run by name."""
    if not any(n.op == "_SpreadConcat" for n in graph.node):
        return graph
    taboo = {*kept, *map(node_name, feeds)}
    if (found := split_sums(graph, feeds, taboo)) is not None:
        split, own = found
        out = _Spreader(Regions(split, feeds), taboo).spread()
        if {n.name for n in out.node}.isdisjoint(own):  # else it has not helped
            return out
    return _Spreader(Regions(graph, feeds), taboo).spread()


class _Taken(NamedTuple):
    """What takes the gradient of the matrix."""

    sums: list[tuple[int, NodeDef]]  # (source, _SumToDistinct)
    slices: list[tuple[int, int, NodeDef]]  # (first column, columns, Slice)

    @property
    def nodes(self) -> list[NodeDef]:
        """In the order of their outputs."""
        return [*(node for _, node in self.sums), *(node for _, _, node in self.slices)]


class _Gradient(NamedTuple):
    weights: NodeDef  # the gradient of the weights
    by: str  # the weights' own edge
    rows: NodeDef | None  # the gradient of the matrix
    taken: _Taken
    total: NodeDef | None = None  # the sum of this one and other layers' that is taken instead

    @property
    def members(self) -> list[NodeDef]:
        taken = [] if self.total else self.taken.nodes
        return [self.weights, *([self.rows] if self.rows else []), *taken]


@dataclass
class _Spreader:
    regions: Regions
    taboo: set[str]
    changed: dict[str, NodeDef] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = self.regions.nodes
        self._contexts = self.regions.contexts()
        self._fed = both_spellings(self.regions.feeds)

    def spread(self) -> GraphDef:
        for node in self.regions.graph.node:
            if node.op == "_SpreadConcat" and self._can_go(node):
                self._without(node)
        return self._rewritten() if self.changed else self.regions.graph

    def _without(self, matrix: NodeDef) -> None:
        forwards, backwards, others = list[NodeDef](), list[NodeDef](), False
        for user, e in self.regions.consumers[matrix.name]:
            if is_control(e) or user.device != matrix.device:
                return
            if data_inputs(user)[0] != e or self._contexts[user.name]:  # it is another factor, or a bias
                others = True
            elif self._is_forward(user):
                forwards.append(user)
            elif self._is_backward(user):
                backwards.append(user)
            else:
                others = True
        columns = [self._columns_of(node) for node in forwards]
        if not columns or max(columns) < LEAST_COLUMNS:
            return
        self._columns_each = sum(columns) // len(columns)
        gradients = [found for node in backwards if (found := self._gradient(matrix, node, forwards))]
        totals = {g.total.name: g for g in gradients if g.total}
        parts = {name: [g for g in gradients if g.total and g.total.name == name] for name in totals}
        if len(gradients) < len(backwards) or any(not self._are_all(parts[name]) for name in totals):
            return
        for node in forwards:
            self._make_product(matrix, node, others)
        made = {g.weights.name: self._make_gradient(matrix, forwards[0], g) for g in gradients}
        for name, one in totals.items():
            self._make_totals(one.taken, [made[g.weights.name] for g in parts[name]])
            self.renamed[f"^{name}"] = f"^{one.taken.nodes[0].name}"
            self.gone.add(name)
        if not others:
            self.gone.add(matrix.name)

    # ------------------------------------------------------------------ what can go

    def _can_go(self, node: NodeDef) -> bool:
        """Whether nobody but its consumers can have asked for this matrix, and its tables are wide enough."""
        if node.name in self.taboo or self._contexts[node.name] or not on_cpu(node.device) or not node.attr["alone"].b:
            return False
        widths, members = node.attr["widths"].list.i, node.attr["members"].list.i
        return sum(widths[m] for m in members) >= LEAST_WIDTH * len(members)

    def _is_forward(self, node: NodeDef) -> bool:
        """Whether it is a product of the matrix, which is its first input and no other one."""
        product = node
        if node.op == "_FusedMatMul":
            product = NodeDef.FromString(node.attr["_nodes"].list.s[0])
            if product.input[0] != node.attr["_inputs"].list.s[0].decode():
                return False
        given = data_inputs(node)
        if not _multiplies(product, False, False) or any(parse(e)[0] == parse(given[0])[0] for e in given[1:]):
            return False
        shape = self._shape(product.input[1] if product is node else self._weights(node, product))
        return shape is not None and len(shape) == 2 and None not in shape

    def _columns_of(self, forward: NodeDef) -> int:
        return int((self._shape(self._weights_of(forward)) or (0, 0))[1] or 0)

    def _weights(self, node: NodeDef, product: NodeDef) -> str:
        """The edge that a fused product has its weights by."""
        names = [text.decode() for text in node.attr["_inputs"].list.s]
        return data_inputs(node)[names.index(product.input[1])]

    def _is_backward(self, node: NodeDef) -> bool:
        given = data_inputs(node)
        return _multiplies(node, True, False) and parse(given[0])[0] != parse(given[1])[0]

    def _shape(self, e: str) -> tuple[int | None, ...] | None:
        return static_shape(self.nodes, e)

    def _gradient(self, matrix: NodeDef, node: NodeDef, forwards: list[NodeDef]) -> _Gradient | None:
        """With the gradient of the matrix where that goes with it. None where a node would wait for itself."""
        weights = {self._weights_of(forward) for forward in forwards}
        dz = data_inputs(node)[1]
        others = [] if dz in self._fed else [n for n, _ in self.regions.consumers[parse(dz)[0]]]
        for other in others:
            if _multiplies(other, False, True) and parse(other.input[0]) == parse(dz) and other.input[1] in weights:
                total = self._total(other, weights)
                taken = self._taken(matrix, total or other, self._shape(other.input[1]))
                if taken is None or (not total and any(_carried(n) != _carried(node) for n in taken.nodes)):
                    continue
                whole = _Gradient(node, other.input[1], other, taken, total)
                if (found := self._in_order(matrix, forwards[0], whole)) is not None:
                    return found
        if len(weights) > 1:
            return None
        return self._in_order(matrix, forwards[0], _Gradient(node, weights.pop(), None, _Taken([], [])))

    def _weights_of(self, forward: NodeDef) -> str:
        if forward.op == "MatMul":
            return data_inputs(forward)[1]
        return self._weights(forward, NodeDef.FromString(forward.attr["_nodes"].list.s[0]))

    def _total(self, dx: NodeDef, weights: set[str]) -> NodeDef | None:
        """The sum of the gradients that several layers give the matrix, where nothing else takes this one."""
        users = [user for user, e in self.regions.consumers[dx.name] if not is_control(e)]
        if len(users) != 1 or users[0].op != "AddN" or dx.name in self.taboo or self._contexts[users[0].name]:
            return None
        total = users[0]
        addends = [self.nodes[node_name(e)] for e in data_inputs(total) if e not in self._fed]
        given = {n.name for n in addends}
        if len(given) < len(data_inputs(total)) or any(map(is_control, total.input)):
            return None
        alike = all(n.op == "MatMul" and n.device == dx.device and n.input[1] in weights for n in addends)
        return total if alike and total.device == dx.device else None

    @staticmethod
    def _are_all(parts: list[_Gradient]) -> bool:
        """Whether these are all addends of their total."""
        assert parts[0].total is not None
        return {node_name(e) for e in data_inputs(parts[0].total)} == {g.rows.name for g in parts if g.rows}

    def _taken(self, matrix: NodeDef, dx: NodeDef, shape: tuple[int | None, ...] | None) -> _Taken | None:
        """What takes the gradient of the matrix, if that is sums of rows by the ids of its sources, and slices of
        columns besides; None where it is anything else."""
        if dx.name in self.taboo or dx.device != matrix.device or self._contexts[dx.name]:
            return None
        given, found, (wide, _) = data_inputs(matrix), _Taken([], []), shape or (0, 0)
        sources = [list(map(parse, given[at + 1 : at + _GIVEN])) for at in range(0, self._others(matrix), _GIVEN)]
        for user, e in self.regions.consumers[dx.name]:
            if is_control(e):  # who waits for it waits for the whole
                continue
            if user.device != matrix.device or user.name in self.taboo or self._contexts[user.name]:
                return None
            told = list(map(parse, data_inputs(user)[1:]))
            if user.op == "_SumToDistinct" and "columns" in user.attr and told in sources:
                found.sums.append((sources.index(told), user))
            elif (columns := self._columns(user)) and sum(columns) <= (wide or 0):
                found.slices.append((*columns, user))
            else:
                return None
        return found if found.sums else None

    def _columns(self, node: NodeDef) -> tuple[int, int] | None:
        """(first column, columns) of a Slice of some whole columns of a matrix."""
        if node.op != "Slice":
            return None
        begin, size = (constant(self.nodes, e, self._fed) for e in data_inputs(node)[1:])
        if begin is None or size is None or begin.shape != (2,) or begin[0] != 0 or size[0] != -1:
            return None
        return (int(begin[1]), int(size[1])) if begin[1] >= 0 and size[1] >= 0 else None

    @staticmethod
    def _others(matrix: NodeDef) -> int:
        """Where the inputs that are other columns begin."""
        return _GIVEN * len(matrix.attr["tables"].list.i)

    def _in_order(self, matrix: NodeDef, forward: NodeDef, found: _Gradient) -> _Gradient | None:
        """None where the node that is made would wait for itself: by edges, or by a queue that one of its members does
        not wait for."""
        members = {n.name for n in found.members}
        before = [node_name(e) for n in (*found.members, matrix) for e in self.regions.edges(n)]
        before += [forward.name, *([] if found.by in self._fed else [node_name(found.by)])]
        before = [name for name in before if name not in members]
        waited = self._before(before)
        asynchronous = {name for name in waited if registry.is_asynchronous(self.nodes[name].op)}
        if members & waited or any(asynchronous - self._before([name]) for name in members if asynchronous):
            return None
        self.regions.sources.update(dict.fromkeys(members, before))  # what others that are made must know
        return found

    def _before(self, names: Iterable[str]) -> set[str]:
        """These nodes and all that they wait for."""
        seen, left = set[str](), list(names)
        while left:
            if (name := left.pop()) not in seen:
                seen.add(name)
                left += self.regions.sources[name]
        return seen

    # ------------------------------------------------------------------ what is put in its place

    def _make_product(self, matrix: NodeDef, node: NodeDef, is_made: bool) -> None:
        """is_made: others take the matrix."""
        inputs = [*data_inputs(matrix), *data_inputs(node)[1:], *([matrix.name] if is_made else [])]
        made = self._made("_SpreadMatMul", matrix, node, inputs, [node] if is_made else [matrix, node])
        made.attr["is_made"].b = is_made
        made.attr["product"].CopyFrom(wire_attrs.encode(node.op))
        for name in _FUSED:  # a plan takes them for the node's own
            if name in node.attr:
                made.attr[f"product{name}"].CopyFrom(node.attr[name])
                del made.attr[name]
        _add_shapes(made, [(None, None)])  # of the matrix, which is seldom made

    def _make_gradient(self, matrix: NodeDef, forward: NodeDef, found: _Gradient) -> str:
        node, sums = found.weights, [s for _, s in found.taken.sums]
        inputs = [*data_inputs(matrix), edge(forward.name, 1), data_inputs(node)[1], found.by]
        made = self._made("_SpreadMatMulGrad", matrix, node, inputs, [matrix, *found.members])
        about: dict[str, Any] = {"sum_sources": [at for at, _ in found.taken.sums]}
        about["sum_tables"] = [len(s.attr["of"].list.i) for s in sums]
        for name in ("of", "columns", "widths"):
            about[f"sum_{name}"] = [i for s in sums for i in s.attr[name].list.i]
        if found.taken.slices:
            about |= {"slice_columns": [begin for begin, _, _ in found.taken.slices]}
            about |= {"slice_widths": [width for _, width, _ in found.taken.slices]}
        for name, value in (about if sums else {}).items():
            made.attr[name].CopyFrom(wire_attrs.encode(value))
        _add_shapes(made, [*[(None,)] * len(sums), *((None, width) for _, width, _ in found.taken.slices)])
        for k, one in enumerate(() if found.total else found.taken.nodes):
            self.renamed[f"{one.name}:0"] = edge(made.name, k + 1)
        for one in found.members[1:]:
            self.renamed[f"^{one.name}"] = f"^{made.name}"
            self.gone.add(one.name)
        return made.name

    def _make_totals(self, taken: _Taken, gradients: list[str]) -> None:
        """What was taken of the sum of several gradients becomes the sum of what each gives."""
        for k, one in enumerate(taken.nodes):
            made = NodeDef(name=one.name, op="AddN", device=one.device)
            made.input[:] = [edge(name, k + 1) for name in gradients] + [e for e in one.input if is_control(e)]
            made.attr["N"].i, made.attr["T"].type = len(gradients), dtypes.float32.as_datatype_enum
            for name in (SHAPES, CARRIED, "_class"):
                if name in one.attr:
                    made.attr[name].CopyFrom(one.attr[name])
            self.changed[one.name] = made

    def _made(self, op: str, matrix: NodeDef, node: NodeDef, inputs: list[str], members: Iterable[NodeDef]) -> NodeDef:
        """A node in the place of another one, with its name."""
        made = NodeDef()
        made.CopyFrom(node)
        made.op = op
        names = {m.name for m in members}
        waited = dict.fromkeys(e for m in members for e in m.input if is_control(e) and e[1:] not in names)
        made.input[:] = [*inputs, *waited]
        for name in _SPREAD:
            made.attr[name].CopyFrom(matrix.attr[name])
        made.attr["concat"].CopyFrom(wire_attrs.encode(wire_attrs.decode(matrix.attr["_fused_from"])[-1]))  # for errors
        made.attr["layer_columns"].i = self._columns_each  # a matrix that one layer makes is no help to the others
        self.changed[node.name] = made
        return made

    def _rewritten(self) -> NodeList:
        nodes = [self.changed.get(n.name, n) for n in self.regions.graph.node if n.name not in self.gone]
        return NodeList(topological([self._renamed(n) for n in nodes], self.regions.feeds), self.regions.graph.versions)

    def _renamed(self, node: NodeDef) -> NodeDef:
        if self.gone.isdisjoint(map(node_name, node.input)):
            return node
        waited = list(dict.fromkeys(self.renamed.get(e, e) for e in node.input if is_control(e)))
        return with_inputs(node, [self.renamed.get("{}:{}".format(*parse(e)), e) for e in data_inputs(node)] + waited)


def _multiplies(node: NodeDef, turned_a: bool, turned_b: bool) -> bool:
    """Whether it is a product of float32 with its sides turned so."""
    if node.op != "MatMul" or node.attr["T"].type != dtypes.float32.as_datatype_enum:
        return False
    return (node.attr["transpose_a"].b, node.attr["transpose_b"].b) == (turned_a, turned_b)


def _carried(node: NodeDef) -> bytes:
    return node.attr[CARRIED].s if CARRIED in node.attr else b""


def _add_shapes(node: NodeDef, shapes: list[tuple[int | None, ...]]) -> None:
    """Of the outputs that a node has besides its first."""
    if SHAPES not in node.attr:
        return
    for dims in shapes:
        shape = node.attr[SHAPES].list.shape.add()
        for size in dims:
            shape.dim.add(size=-1 if size is None else size)
