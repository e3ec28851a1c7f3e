"""Tables that are cut into shards on several tasks travel as whole ones do, each row once.

For every look-up by shards (parted_lookups.py) TensorFlow's nodes sort the ids of one table, gather from its shards and
put the rows in order again: a dozen nodes a table and a step, and as many backwards. Here the reader finds the distinct
ids of all tables, tells them apart by task once (`_PartIds`), and puts what comes back in one array (`_JoinRows`),
which is what a task with whole tables would have sent, and all that is behind takes it for that: the look-up is a
GatherV2 of distinct rows in the place of the stitch, and the sums of the gradients are made as ever (`_SumToDistinct`)
before `_PartRows` takes them apart. kernels/parted_rows.py has the nodes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.master.passes.column_sums import summed
from sparkflow_runtime.master.passes.parted_lookups import Cut, PartedLookup, PartedLookups
from sparkflow_runtime.master.passes.travelling import Lookup, Sum
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.edges import data_inputs, edge, is_control, node_name, parse

if TYPE_CHECKING:
    from sparkflow_runtime.master.passes.distinct_rows import Packer


@dataclass
class _Group:
    """Look-ups whose ids are parted together."""

    reader: str
    homes: list[str]
    lookups: list[PartedLookup]
    at: list[list[int]]  # of each look-up's shards, which of the homes has it
    pack: str  # the _DistinctIds
    of: list[int]  # of each look-up, which of the pack's arrays are its ids
    which: list[int]  # and which array of the _PartIds
    arrays: int
    parted: str = ""  # the _PartIds

    def __post_init__(self) -> None:
        self.shards = [sorted({k for at in self.at for k, home in enumerate(at) if home == h}) for h in self._homes]

    @property
    def _homes(self) -> range:
        return range(len(self.homes))

    def pieces(self, home: int, tables: Sequence[int]) -> list[tuple[int, int]]:
        """(shard, which of these tables) in the order in which a home's rows of them lie."""
        return [(k, i) for k in self.shards[home] for i, t in enumerate(tables) if self.at[t][k : k + 1] == [home]]

    def counts_of(self, home: int, tables: Sequence[int]) -> list[int]:
        """Which of a home's counts is whose: shard by shard, of each array."""
        first = {k: i * self.arrays for i, k in enumerate(self.shards[home])}
        return [first[k] + self.which[tables[i]] for k, i in self.pieces(home, tables)]

    def about(self, tables: Sequence[int], widths: Sequence[int]) -> dict[str, Any]:
        """Attributes of nodes that put rows of these tables together or take them apart."""
        each = [self.pieces(home, tables) for home in self._homes]
        counts = [n for home in self._homes for n in self.counts_of(home, tables)]
        table = [i for pieces in each for _, i in pieces]
        found = {"counts": counts, "table": table, "pieces": list(map(len, each))}
        return {"of": [self.of[t] for t in tables], "widths": list(widths), **found}

    def places_of(self, parts: str) -> set[str]:
        """The DynamicPartitions of the places of ids that this one parts: one a look-up, unless they are one node."""
        return {one.places for one in self.lookups if one.parts == parts}

    def matched(self, parts: str, sums: dict[int, list[Sum]]) -> list[tuple[int, dict[int, Sum]]]:
        """(look-up, a sum for each of its shards) of sums by shard; several tables may have the same ids and gradient,
        and each its shards on other tasks."""
        found: list[tuple[int, dict[int, Sum]]] = []
        left = {shard: list(ones) for shard, ones in sums.items()}
        for t in (t for t, one in enumerate(self.lookups) if one.parts == parts):
            there = [(k, home, left.get(k, [])) for k, home in enumerate(self.at[t])]
            own = {k: one for k, home, ones in there for one in ones[::-1] if one.key[0] == self.homes[home]}
            if len(own) == len(self.at[t]):
                found.append((t, own))
                for k, one in own.items():
                    left[k].remove(one)
        return found

    def told(self, home: int) -> list[str]:
        """Ids, counts and places of a home's rows."""
        return [edge(self.parted, 3 * home + port) for port in range(3)]


@dataclass
class PartedRows:
    """What moves, of a Packer's look-ups and sums."""

    packer: Packer
    groups: list[_Group] = field(default_factory=list)

    def move(self, lookups: list[Lookup], sums: list[Sum]) -> tuple[list[Lookup], list[Sum]]:
        """Those that are left."""
        by_name = {it.node.name: it for it in lookups}
        found: dict[Any, list[PartedLookup]] = defaultdict(list)
        self._all = PartedLookups(self.packer.regions)
        for one in self._all.found() if lookups else ():
            if (key := self._key(one, [by_name.get(name) for name in one.gathers])) is not None:
                found[key].append(one)
        moved = {name for group in found.values() for one in group for name in one.gathers}
        for group in found.values():
            self._move_lookups([(one, [by_name[name] for name in one.gathers]) for one in group])
        taken = {one.node.name for group in self.groups for one in self._move_sums(group, sums)}
        return (
            [it for it in lookups if it.node.name not in moved],
            [one for one in sums if one.node.name not in taken],
        )

    def _key(self, one: PartedLookup, members: list[Lookup | None]) -> Any:
        """What look-ups that are parted together have in common; None where they cannot be."""
        packer, known = self.packer, [it for it in members if it is not None]
        stitch = one.stitch
        if len(known) < len(members) or packer.is_fed(stitch.name) or packer.context[stitch.name]:
            return None
        reader = known[0].key[1]
        if packer.task_of_edge(edge(stitch.name, 0)) != reader or packer.task_of_edge(one.ids) not in (None, reader):
            return None
        if len({it.row for it in known}) > 1 or len(known[0].row) != 1:
            return None
        alike = {(it.key[1:], packer.together(it.node.name)) for it in known}
        if len(alike) > 1:
            return None
        return alike.pop()

    # ------------------------------------------------------------------ rows

    def _move_lookups(self, found: list[tuple[PartedLookup, list[Lookup]]]) -> None:
        packer, lookups = self.packer, [one for one, _ in found]
        _, reader, _, carried = found[0][1][0].key
        homes = list(dict.fromkeys(it.key[0] for _, its in found for it in its))
        at = [[homes.index(it.key[0]) for it in its] for _, its in found]
        pack, of = packer.pack("", reader, [one.ids for one in lookups])
        arrays: dict[tuple[int, Cut, tuple[int, ...]], int] = {}
        which = [arrays.setdefault((n, one.cut, tuple(to)), len(arrays)) for n, one, to in zip(of, lookups, at)]
        group = _Group(reader, homes, lookups, at, pack.name, of, which, len(arrays))
        counts, names = edge(pack.name, 1), dict(zip(which, (one.parts for one in lookups)))
        about: dict[str, Any] = {"of": [number for number, _, _ in arrays]}
        about |= {name: [getattr(c, name) for _, c, _ in arrays] for name in Cut._fields}
        about |= {"shards": [len(to) for _, _, to in arrays], "homes": [home for _, _, to in arrays for home in to]}
        about |= {"_fused_from": [names[number] for number in range(len(arrays))]}
        group.parted = packer.make("_PartIds", reader, [pack.name, counts], about, repr((homes, list(arrays))))
        inputs = [counts]
        for home, task in enumerate(homes):
            ids, counted, places = group.told(home)
            every = range(len(found))
            members = [found[t][1][k] for k, t in group.pieces(home, every)]
            controls = dict.fromkeys(e for it in members for e in it.node.input if is_control(e))
            told: dict[str, Any] = {"N": len(members), "of": group.counts_of(home, every)}
            told["_fused_from"] = [it.node.name for it in members]
            tables = [it.node.input[0] for it in members]
            rows = packer.make("_GatherDistinct", task, [*tables, ids, counted, *controls], told, reader, carried)
            inputs += [rows, counted, places]
        widths = [its[0].row[0] for _, its in found]
        joined = packer.make("_JoinRows", reader, inputs, group.about(range(len(found)), widths), "")
        shapes = [Shape(its[0].row) for _, its in found]
        split = packer.make("_SplitRows", reader, [joined, counts], {"of": of, "row_shapes": shapes}, "")
        for t, (one, its) in enumerate(found):
            packer.look_up(one.stitch, its[0].node, one.ids, edge(split, t), packer.places(pack, of[t]), reader)
        self.groups.append(group)

    # ------------------------------------------------------------------ gradients

    def _move_sums(self, group: _Group, sums: list[Sum]) -> list[Sum]:
        """Those that go the other way."""
        parted = {one.parts for one in group.lookups}
        found: dict[Any, dict[tuple[str, str], dict[int, list[Sum]]]]
        found = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for one in sums:
            parts, shard = self._all.partition_of(one.ids)
            if parts not in parted or one.key[1] != group.reader or self.packer.context[one.node.name]:
                continue
            if len(one.row) == 1 and (grad := self._whole(one, group.places_of(parts), shard)) is not None:
                key = one.key[1:], self.packer.together(one.node.name)
                found[key][parts, grad][shard].append(one)
        moved = list[Any]()
        for tables in found.values():
            whole = [(t, grad, its) for (parts, grad), ones in tables.items() for t, its in group.matched(parts, ones)]
            if whole:
                moved += self._part_sums(group, whole)
        return moved

    def _whole(self, one: Sum, places: set[str], shard: int) -> str | None:
        """The gradient of all rows of a look-up, of which these are one shard's."""
        e, packer = one.rows, self.packer
        while packer.task_of_edge(e) is not None:
            node = packer.nodes[node_name(e)]
            if any(map(is_control, node.input)):
                return None
            if node.op == "GatherV2":
                grad, where, _ = data_inputs(node)
                partition, part = self._all.partition_of(where)
                if partition not in places or part != shard or not packer.looks_up_rows(node):
                    return None
                same = packer.row(grad) == one.row and packer.task_of_edge(grad) in (None, one.key[1])
                return edge(*parse(grad)) if same else None
            if node.op not in ("Identity", "Reshape") or packer.row(node.input[0]) != one.row:
                return None
            e = node.input[0]
        return None

    def _part_sums(self, group: _Group, found: list[tuple[int, str, dict[int, Sum]]]) -> list[Sum]:
        """found: (a look-up with these ids and tasks, the gradient, the sums of its shards)."""
        packer, tables, each = self.packer, [t for t, _, _ in found], [its for _, _, its in found]
        whole = [its[0]._replace(rows=grad) for _, grad, its in found]
        sums = summed(packer, whole, group.pack, [group.of[t] for t in tables], group.reader, "", b"")
        told = [e for home in range(len(group.homes)) for e in group.told(home)[1:]]
        about = group.about(tables, [one.row[0] for one in whole])
        parted = packer.make("_PartRows", group.reader, [sums, edge(group.pack, 1), *told], about, "", whole[0].key[2])
        moved: list[Sum] = []
        for home in range(len(group.homes)):
            if mine := [each[i][k] for k, i in group.pieces(home, tables)]:
                packer.deliver(mine, [edge(parted, home), *group.told(home)[:2]], group.counts_of(home, tables))
            moved += mine
        return moved
