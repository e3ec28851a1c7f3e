"""Parts of a variable that are read before an update of the same step, and used after it.

A read hands on the variable's own memory, and an update changes that in place: as in TensorFlow, what uses the read
after the update sees the new value. A slice, a transpose or a broadcast is a new tensor in TensorFlow and keeps the old
one, and so does a read of a resource variable. Here it is a view; where anything may look at it after an update, it
has to be a copy. Most steps have none: the gates of a gradient have all products of a weight computed before the weight
changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from sparkflow_runtime.kernels.memories import on_its_device
from sparkflow_runtime.kernels.registry import VARIABLES, Kernel
from sparkflow_runtime.wire.edges import KEPT_READ, parse
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.units import Unit

# What gives a view here, and in TensorFlow a tensor of its own.
VIEWS = frozenset(
    "StridedSlice Slice _Slices Transpose ReverseV2 BroadcastTo Unpack Split SplitV Real Imag".split()  # noqa: SIM905
)


def copying(function: Callable[..., Any], multi: bool, device: str) -> Callable[..., Any]:
    """`function`, whose outputs have memory of their own there."""
    if multi:
        return on_its_device(lambda *inputs: [value.copy() for value in function(*inputs)], device)
    return on_its_device(lambda *inputs: function(*inputs).copy(), device)


class OldValues:
    """Asked once the units of a plan are known. unit_of: node -> its unit. loops: the nodes that run more than once."""

    def __init__(
        self,
        order: Sequence[NodeDef],
        data: Mapping[str, Sequence[str]],
        attrs: Mapping[str, Mapping[str, Any]],
        kernels: Mapping[str, Kernel],
        unit_of: Mapping[str, int],
        units: Sequence[Unit],
        loops: frozenset[str],
    ):
        self._data, self._attrs, self._kernels, self._loops = data, attrs, kernels, loops
        self._unit_of, self._units = unit_of, units
        self._at = {node.name: i for i, node in enumerate(order)}
        self._before: dict[int, set[int]] = {}  # unit -> those that end before it begins, as far as asked

    def to_copy(self, fetched: set[str]) -> set[str]:
        """The views that have to be copies. fetched: the nodes whose outputs somebody has after the step."""
        rows, found = self._kernels.values(), set[str]()
        if not any(row.refs and row.stateful for row in rows) or not any(map(self._is_view, self._kernels)):
            return found
        memory, writers = self._memory()
        views = [name for name in memory if self._is_view(name)]
        if not writers or not views:
            return found
        users = self._users()
        for view in views:
            later = [w for of in memory[view] for w in writers.get(of, ()) if not self._surely_first(w, view)]
            looking = self._all_users(view, users, fetched) if later else ()
            if any(not self._surely_first(user, writer) for user in looking for writer in later):
                found.add(view)
        return found

    def _is_view(self, name: str) -> bool:
        row = self._kernels[name]
        return row.op in VIEWS or (row.op == "Identity" and bool(self._attrs[name].get(KEPT_READ)))

    def _memory(self) -> tuple[dict[str, set[str]], dict[str, list[str]]]:
        """Node -> the variables whose memory it may give; variable -> the nodes that change it."""
        memory: dict[str, set[str]] = {}
        writers: dict[str, list[str]] = {}
        for name in self._at:
            row = self._kernels.get(name)
            if row is None:
                continue
            if row.op in VARIABLES:
                memory[name] = {name}
                continue
            if not (row.aliases or row.refs) or row.plain:
                continue
            of = [memory.get(parse(e)[0], set()) if row.aliases or i in row.refs else set()
                  for i, e in enumerate(self._data[name])]  # fmt: skip
            whole = set[str]().union(*of)
            if whole:
                memory[name] = whole
            if row.stateful:
                for i in row.refs:
                    for variable in of[i] if i < len(of) else ():
                        writers.setdefault(variable, []).append(name)
        return memory, writers

    def _users(self) -> dict[str, list[str]]:
        users: dict[str, list[str]] = {}
        for name in self._at:
            for e in self._data[name]:
                users.setdefault(parse(e)[0], []).append(name)
        return users

    def _all_users(self, view: str, users: Mapping[str, list[str]], fetched: set[str]) -> Iterator[str]:
        """Whoever looks at its memory, itself or by way of another view; "" for who does so after the step."""
        seen, left = {view}, [view]
        while left:
            name = left.pop()
            if name in fetched:
                yield ""
            for user in users.get(name, ()):
                if user not in seen:
                    seen.add(user)
                    yield user
                    row = self._kernels.get(user)
                    if row is not None and row.aliases:
                        left.append(user)

    def _surely_first(self, one: str, other: str) -> bool:
        """Whether `one` has run whenever `other` runs."""
        if not one or (other in self._loops and one in self._loops):
            return False
        a, b = self._unit_of.get(one), self._unit_of.get(other)
        if a is None or b is None:
            return False
        return self._at[one] < self._at[other] if a == b else a in self._units_before(b)

    def _units_before(self, unit: int) -> set[int]:
        if unit in self._before:
            return self._before[unit]
        found, left = set[int](), [unit]
        while left:
            of = left.pop()
            new = [i for i, u in enumerate(self._units) if of in u.successors and i not in found]
            found.update(new)
            left += new
        self._before[unit] = found
        return found
