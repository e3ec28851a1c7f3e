"""The graph of a partial run: feeds come from, and fetches go to, mailboxes of the step (kernels/partial.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.edges import edge, is_control, node_name, parse, with_inputs
from sparkflow_runtime.wire.errors import NotFoundError
from sparkflow_runtime.wire.protos import NodeDef

FEED, FETCH = "_PartialFeed", "_PartialFetch"


def with_mailboxes(
    nodes: Mapping[str, NodeDef], feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str], device: str
) -> tuple[dict[str, NodeDef], list[str]]:
    """(the nodes with fed edges redirected and mailboxes added on `device`, the names of the mailboxes to run)."""
    boxes = {feed: _box(FEED, feed, device) for feed in feeds}
    takers = [_box(FETCH, fetch, device, [fetch]) for fetch in fetches]
    takers += [_box(FETCH, target, device, ["^" + target]) for target in targets]
    out = {box.name: box for box in boxes.values()}
    for node in (*nodes.values(), *takers):
        out[node.name] = _redirected(node, {feed: box.name for feed, box in boxes.items()})
    return out, [node.name for node in (*boxes.values(), *takers)]


def _box(op: str, tensor: str, device: str, inputs: Sequence[str] = ()) -> NodeDef:
    node = NodeDef(name=f"{op}/{tensor.replace(':', '_')}", op=op, device=device)
    node.input.extend(e if is_control(e) else edge(*parse(e)) for e in inputs)
    node.attr["tensor_name"].CopyFrom(encode(tensor))
    return node


def _redirected(node: NodeDef, boxes: Mapping[str, str]) -> NodeDef:
    inputs = [e if is_control(e) else boxes.get("{}:{}".format(*parse(e)), e) for e in node.input]
    return with_inputs(node, inputs)


def feeds_needed(
    nodes: Mapping[str, NodeDef], feeds: Sequence[str], fetches: Sequence[str], targets: Sequence[str]
) -> dict[str, set[str]]:
    """For each fetch and target the feeds it cannot do without. Raises NotFoundError on a name not in the graph."""
    fed, needed = set(feeds), {}
    for name in (*fetches, *targets):
        found: set[str] = {name} & fed
        seen, todo = set(), [] if name in fed else [name]
        while todo:
            at = node_name(todo.pop())
            if at not in nodes:
                raise NotFoundError(f"The graph has no node {at!r} to fetch or run")
            if at in seen:
                continue
            seen.add(at)
            for e in nodes[at].input:
                tensor = "" if is_control(e) else "{}:{}".format(*parse(e))
                if tensor in fed:
                    found.add(tensor)
                else:
                    todo.append(e)
        needed[name] = found
    return needed
