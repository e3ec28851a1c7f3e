"""What a node waits for besides its inputs' arithmetic: the asynchronous ops before it.

Nodes that wait for different ones must not become one, and none may begin to take what waits for more than it did: one
that another's value must reach first, as a queue's element its dequeue, would never end.
"""

from __future__ import annotations

from sparkflow_runtime.master.passes.view import View, producer


def events_before(view: View) -> dict[str, int]:
    """The asynchronous ops that come before each node, as bits. A fused node keeps its last member's name and has that
    one's bits, which are those of all its members."""
    if all(op.row is not None and not op.row.is_async for op in view.ops.values()):
        return dict.fromkeys(view.ops, 0)
    found: dict[str, int] = {}
    count = 0
    for op in view.ops.values():
        before = 0
        for name in (*map(producer, op.data), *op.control):
            before |= found.get(name, 0)
        if op.row is None or op.row.is_async:
            before |= 1 << count
            count += 1
        found[op.name] = before
    return found
