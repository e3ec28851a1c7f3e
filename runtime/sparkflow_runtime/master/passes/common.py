"""Common subexpressions: of nodes that compute the same from the same inputs, the first one stays; of those that assert
the same, too, whatever they would say of it."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.master.passes.view import Op, View, producer

_NEVER = frozenset(["Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "NoOp"])
_HIDDEN = frozenset(["_output_shapes", "_class"])  # say nothing of the value; `_class` is compared apart
_MAX_CONST_BYTES = 1 << 16


def common_subexpressions(view: View) -> None:
    """Merge equal pure nodes: same op, attributes, inputs, control inputs and device; so they are inside of the same
    conds and loops. Fed nodes are never merged, and a fetched one stays beside the one it equals."""
    seen = _Seen(view)
    edges: dict[str, str] = {}
    asserted: dict[str, str] = {}
    kept, gates = view.kept, view.gates
    fed = {producer(e) for e in view.feeds}
    gone: list[str] = []
    for op in view.ops.values():
        if edges:
            op.data = [_merged(e, edges) for e in op.data]
        if asserted and not asserted.keys().isdisjoint(op.control):
            op.control = list(dict.fromkeys(asserted.get(c, c) for c in op.control))
        if op.op == "Assert" and op.name in view.free:
            first = seen.first_to_assert(op)
            if first is not op and op.name not in kept:
                asserted[op.name] = view.moved[op.name] = first.name
                gone.append(op.name)
        if view.context(op.name) is None or op.op in _NEVER or not op.pure or op.name in fed:
            continue
        found = seen.first_like(op)
        if found is not op:
            edges[op.name] = found.name
            if op.name not in kept and op.name not in gates:
                view.moved[op.name] = found.name
                gone.append(op.name)
    view.drop(gone)


def _merged(edge: str, edges: dict[str, str]) -> str:
    name, colon, port = edge.partition(":")
    return f"{edges[name]}{colon}{port}" if name in edges else edge


class _Seen:
    """The nodes so far. Attributes are only looked at when op and inputs are equal, which is seldom."""

    def __init__(self, view: View):
        self._view = view
        self._by_inputs: dict[Any, Op | dict[Any, Op]] = {}
        self._asserts: dict[Any, Op] = {}

    def first_like(self, op: Op) -> Op:
        key = (op.op, *op.data)
        found = self._by_inputs.get(key)
        if found is None:
            self._by_inputs[key] = op
            return op
        if isinstance(found, Op):
            found = self._by_inputs[key] = {self._details(found): found}
        return found.setdefault(self._details(op), op)

    def first_to_assert(self, op: Op) -> Op:
        place = () if self._view.one_device else (op.device, self._view.company(op))
        return self._asserts.setdefault((op.data[0], frozenset(op.control), place), op)

    def _details(self, op: Op) -> Any:
        attrs = op.proto.attr
        if op.op == "Const" and attrs["value"].ByteSize() > _MAX_CONST_BYTES:
            return op.name  # equal to none but itself
        shown = [(n, a.SerializeToString(deterministic=True)) for n, a in attrs.items() if n not in _HIDDEN]
        place = () if self._view.one_device else (op.device, self._view.company(op))
        return tuple(sorted(shown)), tuple(sorted(op.control)), place, repr(sorted(op.changed.items()))
