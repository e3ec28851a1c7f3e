"""Straight-line segments as generated Python: one line a node, values in local variables.

A segment of n kernel calls then costs n calls and nothing else: no dictionary look-up, no per-node dispatch. The line
number of a traceback tells which node failed, so error reports cost nothing while all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sparkflow_runtime.resources.variables import Variable

_serial = count()


def read(value: Any) -> Any:
    """The array of a variable; anything else as it is."""
    return value.read() if type(value) is Variable else value


@dataclass
class Call:
    """One line: `out = function(*args)`. An arg is ('local', line), ('item', line, port), ('slot', slot) or ('const',
    value), with a leading '&' in its kind when the variable it may be must be read first."""

    node: str
    function: Callable[..., Any] | str  # a str is an expression of the args, such as "{} + {}"
    args: Sequence[tuple[Any, ...]]
    stores: Sequence[tuple[int, int | None]] = ()  # (slot, port or None for the whole value)


@dataclass
class Segment:
    """`run(V)` reads and writes the slots V; `nodes[line]` names the node of a source line."""

    run: Callable[[list[Any]], None]
    filename: str
    nodes: dict[int, str]


def compile_segment(calls: Sequence[Call]) -> Segment:
    names: dict[str, Any] = {"read": read}
    filename = f"<sparkflow segment {next(_serial)}>"
    last_use = {
        arg[1]: i for i, call in enumerate(calls) for arg in call.args if arg[0].lstrip("&") in ("local", "item")
    }
    dying: dict[int, list[int]] = {}
    for line, user in last_use.items():
        dying.setdefault(user, []).append(line)
    source, nodes = ["def run(V):"], {}
    for i, call in enumerate(calls):
        value = _value(call, i, names)
        target = f"t{i} = " if i in last_use or call.stores else ""
        stores = "".join(f"; V[{slot}] = t{i}" + ("" if port is None else f"[{port}]") for slot, port in call.stores)
        drops = [f"t{line}" for line in dying.get(i, ())] + ([f"t{i}"] if call.stores and i not in last_use else [])
        source.append(f"    {target}{value}{stores}" + (f"; del {', '.join(drops)}" if drops else ""))
        nodes[len(source)] = call.node
    source.append("    return None")
    exec(compile("\n".join(source), filename, "exec"), names)  # our own text: indices and k/c/t names only
    return Segment(names["run"], filename, nodes)


def _value(call: Call, line: int, names: dict[str, Any]) -> str:
    args = [_expression(arg, line, position, names) for position, arg in enumerate(call.args)]
    if isinstance(call.function, str):
        return call.function.format(*args)
    names[f"k{line}"] = call.function
    return f"k{line}({', '.join(args)})"


def _expression(arg: tuple[Any, ...], line: int, position: int, names: dict[str, Any]) -> str:
    kind = arg[0].lstrip("&")
    if kind == "const":
        names[f"c{line}_{position}"] = arg[1]
        return f"c{line}_{position}"
    text = {"local": "t{}", "item": "t{}[{}]", "slot": "V[{}]"}[kind].format(*arg[1:])
    return f"read({text})" if arg[0].startswith("&") else text
