"""A graph as a drawing: an SVG of its name scopes and of what flows between them, made here and from nothing else.

Scopes are opened, the one with most ops first, as long as there is room for what is in them. What a box needs stands
above it. A loop's way back is drawn as a dashed line.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from sparkflow.framework.shapes import show

if TYPE_CHECKING:
    from sparkflow.framework.graph import Graph

_MOST_BOXES, _TOO_MANY_BOXES = 40, 300
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 132, 34, 22, 44, 12
_COLOURS = {"op": "#f7f7f7", "scope": "#dfe9f5", "state": "#f5e6cf", "input": "#e2f0df"}
_STATE = ("Variable", "VariableV2", "VarHandleOp")
_INPUTS = ("Placeholder", "PlaceholderWithDefault")
_HIDDEN = ("Const", "NoOp")
Edges = Mapping[tuple[str, str], list[str]]


class Box(NamedTuple):
    """A scope (its name ends with "/") or an op. lines: what is written into it; hint: shown under the pointer."""

    name: str
    kind: str
    lines: tuple[str, str]
    hint: str


def drawn(graph: Graph) -> str:
    """HTML with the drawing."""
    ops = [op for op in graph.get_operations() if op.type not in _HIDDEN]
    head = f"<p>Graph of {len(graph.get_operations())} ops</p>"
    if not ops:
        return head
    opened = _opened(ops)
    place = {op: _box_of(op.name, opened) for op in ops}
    members = defaultdict(list)
    for op, name in place.items():
        members[name].append(op)
    if len(members) > _TOO_MANY_BOXES:
        return head + f"<p>{len(members)} of them stand in no name scope: too many to draw</p>"
    boxes = {name: _box(name, inside) for name, inside in members.items()}
    edges = _edges(ops, place)
    return head + _svg(boxes, edges, _layers(list(boxes), edges))


def _opened(ops: list[Any]) -> set[str]:
    """The scopes that are shown as what is in them."""
    children: dict[str, set[str]] = defaultdict(set)
    sizes: Counter[str] = Counter()
    for op in ops:
        parts = op.name.split("/")
        for i in range(len(parts)):
            scope = "".join(f"{p}/" for p in parts[:i])
            sizes[scope] += 1
            children[scope].add("/".join(parts[: i + 1]) + ("/" if i + 1 < len(parts) else ""))
    found, shown = {""}, len(children[""])
    waiting = {c for c in children[""] if c.endswith("/")}
    while waiting:
        best = max(sorted(waiting), key=lambda s: sizes[s])
        waiting.discard(best)
        if shown - 1 + len(children[best]) <= _MOST_BOXES:
            found.add(best)
            shown += len(children[best]) - 1
            waiting |= {c for c in children[best] if c.endswith("/")}
    return found


def _box_of(name: str, opened: set[str]) -> str:
    """The outermost scope of an op that is not opened, or the op itself."""
    scope = ""
    for part in name.split("/")[:-1]:
        scope += f"{part}/"
        if scope not in opened:
            return scope
    return name


def _box(name: str, inside: list[Any]) -> Box:
    short = name.rstrip("/").rpartition("/")[2]
    counts = Counter(op.type for op in inside)
    if name.endswith("/"):
        kind = "state" if any(t in counts for t in _STATE) else "scope"
        hint = f"{name} ({len(inside)} ops: " + ", ".join(f"{n} {t}" for t, n in counts.most_common(8)) + ")"
        return Box(name, kind, (f"{short}/", f"{len(inside)} ops"), hint)
    (op,) = inside
    kind = "state" if op.type in _STATE else "input" if op.type in _INPUTS else "op"
    shapes = ", ".join(show(t._shape) for t in op.outputs)
    return Box(
        name, kind, (short, f"{op.type} {shapes}"), f"{op.type} {op.name}: {shapes} on {op.device or 'any device'}"
    )


def _edges(ops: Iterable[Any], place: Mapping[Any, str]) -> Edges:
    """(from, to) -> the tensors that go there."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for op in ops:
        for tensor in op.inputs:
            source = place.get(tensor.op)
            if source is not None and source != place[op]:
                found[source, place[op]].append(f"{tensor.name} {show(tensor._shape)}")
    return found


def _layers(names: list[str], edges: Edges) -> list[list[str]]:
    """What needs nothing first. Ways back, by the order in which boxes were made, do not count."""
    number = {name: i for i, name in enumerate(names)}
    level = dict.fromkeys(names, 0)
    for name in names:
        sources = [level[a] + 1 for a, b in edges if b == name and number[a] < number[b]]
        level[name] = max(sources, default=0)
    rows: list[list[str]] = [[] for _ in range(max(level.values()) + 1)]
    for name in names:
        rows[level[name]].append(name)
    at: dict[str, float] = {}
    for row in rows:  # beside what they take from
        row.sort(key=lambda n: _mean([at[a] for a, b in edges if b == n and a in at]))
        at.update({name: i - len(row) / 2 for i, name in enumerate(row)})
    return rows


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _svg(boxes: Mapping[str, Box], edges: Edges, rows: list[list[str]]) -> str:
    wide = max(map(len, rows)) * (_WIDTH + _GAP_X) + 2 * _MARGIN
    high = len(rows) * (_HEIGHT + _GAP_Y) + 2 * _MARGIN
    at = {
        name: ((wide - len(row) * (_WIDTH + _GAP_X)) / 2 + i * (_WIDTH + _GAP_X), _MARGIN + y * (_HEIGHT + _GAP_Y))
        for y, row in enumerate(rows)
        for i, name in enumerate(row)
    }
    parts = [_line(at[a], at[b], tensors) for (a, b), tensors in edges.items()]
    parts += [_rectangle(boxes[name], *at[name]) for name in boxes]
    style = "font-family:sans-serif;font-size:10px;max-width:100%"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" viewBox="0 0 {wide:g} {high:g}" '
        f'style="{style}">{"".join(parts)}</svg>'
    )


def _rectangle(box: Box, x: float, y: float) -> str:
    middle = x + _WIDTH / 2
    texts = ""
    for i, (line, colour) in enumerate(zip(box.lines, ("#000", "#666"))):
        at = f'x="{middle:g}" y="{y + 14 + 13 * i:g}"'
        texts += f'<text {at} text-anchor="middle" fill="{colour}">{escape(_cut(line))}</text>'
    return (
        f'<g><title>{escape(box.hint)}</title><rect x="{x:g}" y="{y:g}" width="{_WIDTH}" height="{_HEIGHT}" rx="5" '
        f'fill="{_COLOURS[box.kind]}" stroke="#888"/>{texts}</g>'
    )


def _cut(text: str) -> str:
    return text if len(text) <= 24 else text[:22] + "…"


def _line(start: tuple[float, float], end: tuple[float, float], tensors: list[str]) -> str:
    (x1, y1), (x2, y2) = start, end
    x1, x2, y1 = x1 + _WIDTH / 2, x2 + _WIDTH / 2, y1 + _HEIGHT
    back = y2 < y1
    bend = (y2 - y1) / 2 if not back else _GAP_Y
    width = 1 + min(len(tensors), 9) / 4
    hint = escape("\n".join([*tensors[:8], *(["..."] if len(tensors) > 8 else [])]))
    dashes = ' stroke-dasharray="4 3"' if back else ""
    return (
        f'<path d="M{x1:g},{y1:g} C{x1:g},{y1 + bend:g} {x2:g},{y2 - bend:g} {x2:g},{y2:g}" fill="none" stroke="#999" '
        f'stroke-width="{width:g}"{dashes}><title>{hint}</title></path>'
    )
