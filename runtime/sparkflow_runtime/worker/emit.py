"""Statements of generated code and their text: lines, branches and loops, with values dropped after their last use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

Block = list["Statement"]
_Where = tuple[tuple[int, int], ...]  # a block: (position, branch) from the outermost
_Place = tuple[_Where, int]  # a statement: its block, and its position there
_Drops = dict[_Place, list[str]]


@dataclass
class Line:
    """One statement. `defines` and `uses` are the local names that it sets and reads; `node` is who is to blame."""

    text: str
    node: str = ""
    defines: tuple[str, ...] = ()
    uses: frozenset[str] = frozenset()


@dataclass
class If:
    test: str
    uses: frozenset[str]
    then: Block
    otherwise: Block
    node: str = ""


@dataclass
class Loop:
    """`while True`."""

    body: Block


Statement = Line | If | Loop


@dataclass
class Text:
    """Source lines, and which node a line is of (the number of a line is that in the function's file)."""

    lines: list[str] = field(default_factory=list)
    nodes: dict[int, str] = field(default_factory=dict)
    deepest: int = 0

    def add(self, depth: int, text: str, node: str = "") -> None:
        self.deepest = max(self.deepest, depth)
        self.lines.append("    " * depth + text)
        if node:
            self.nodes[len(self.lines)] = node


def write(head: str, block: Block) -> Text:
    """The source of a function with this head and body."""
    drops: _Drops = {}
    for name, (at, is_set) in _last_uses(block).items():
        drops.setdefault(at, []).append(f"del {name}" if is_set else f"{name} = None")
    text = Text([head])
    _write_block(text, block, (), 1, drops)
    text.add(1, "return None")
    return text


def _write_block(text: Text, block: Block, where: _Where, depth: int, drops: _Drops) -> None:
    if not block:
        text.add(depth, "pass")
    for position, one in enumerate(block):
        if isinstance(one, Line):
            text.add(depth, one.text, one.node)
        elif isinstance(one, If):
            _write_if(text, one, (where, position), depth, drops)
        else:
            text.add(depth, "while True:")
            _write_block(text, one.body, (*where, (position, 0)), depth + 1, drops)
        for drop in drops.get((where, position), ()):
            text.add(depth, drop)


def _write_if(text: Text, one: If, at: _Place, depth: int, drops: _Drops) -> None:
    where, position = at
    test, first, second = one.test, one.then, one.otherwise
    branches = [0, 1]
    if not first:
        test, first, second, branches = f"not {test}", second, first, [1, 0]
    text.add(depth, f"if {test}:", one.node)
    _write_block(text, first, (*where, (position, branches[0])), depth + 1, drops)
    if second:
        text.add(depth, "else:")
        _write_block(text, second, (*where, (position, branches[1])), depth + 1, drops)


def _last_uses(block: Block) -> dict[str, tuple[_Place, bool]]:
    """name -> (the last statement that concerns it, in the innermost block that holds all that do; whether it is
    certain to be set by then)."""
    found: dict[str, list[tuple[_Place, bool]]] = {}
    for place, defines, uses in _walk(block, ()):
        for name in defines:
            found.setdefault(name, []).append((place, True))
        for name in uses:
            found.setdefault(name, []).append((place, False))
    return {name: _home(places) for name, places in found.items()}


def _walk(block: Block, where: _Where) -> Iterator[tuple[_Place, tuple[str, ...], frozenset[str]]]:
    for position, one in enumerate(block):
        if isinstance(one, Line):
            yield (where, position), one.defines, one.uses
        elif isinstance(one, If):
            yield (where, position), (), one.uses
            yield from _walk(one.then, (*where, (position, 0)))
            yield from _walk(one.otherwise, (*where, (position, 1)))
        else:
            yield from _walk(one.body, (*where, (position, 0)))


def _home(places: list[tuple[_Place, bool]]) -> tuple[_Place, bool]:
    home = places[0][0][0]
    for (where, _), _ in places[1:]:
        common = 0
        while common < min(len(home), len(where)) and home[common] == where[common]:
            common += 1
        home = home[:common]
    depth = len(home)
    last = max(where[depth][0] if len(where) > depth else position for (where, position), _ in places)
    return (home, last), any(is_set and where == home for (where, _), is_set in places)
