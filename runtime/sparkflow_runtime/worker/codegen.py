"""Straight-line segments as generated Python: one line a node, values in local variables.

A segment of n kernel calls then costs n calls and nothing else: no dictionary look-up, no per-node dispatch. The line
number of a traceback tells which node failed, so error reports cost nothing while all is well.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from sparkflow_runtime.resources.variables import Variable
from sparkflow_runtime.worker.reuse import reusing

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
    in_place: Sequence[int] = ()  # positions of inputs whose memory the output may take, where it pays to ask
    is_pure: bool = False  # it has no effects and sees those of others only through its inputs
    is_name: bool = False  # it says which variable is meant, and may be called at any time
    outputs: int = 0  # how many values it gives, where that is known: they are then unpacked at once


@dataclass
class Segment:
    """`run(V)` reads and writes the slots V; `nodes[line]` names the node of a source line."""

    run: Callable[[list[Any]], None]
    filename: str
    nodes: dict[int, str]


def new_filename() -> str:
    """By which a traceback tells whose line failed."""
    return f"<sparkflow segment {next(_serial)}>"


def compile_segment(calls: Sequence[Call], filename: str = "") -> Segment:
    """filename: of another form of the same calls, whose lines are theirs."""
    names: dict[str, Any] = {"read": read}
    variables = {i: found for i, call in enumerate(calls) if type(found := _named(call)) is Variable}
    filename = filename or new_filename()
    last_use = last_uses(calls)
    dying: dict[int, list[str]] = {}
    for name, user in last_use.items():
        dying.setdefault(user, []).append(name)
    ports = used_ports(calls)
    source, nodes = ["def run(V):"], {}
    for i, call in enumerate(calls):
        if i in variables:
            names[f"k{i}"], parts = variables[i], [f"k{i}"]
        else:
            parts = [value_of(call, f"k{i}", i, names, last_use, variables)]
        items = ports.get(i, ())
        if 0 < call.outputs == len(items) and not call.stores and f"t{i}" not in last_use:
            parts[0] = "".join(f"t{i}_{port}, " for port in sorted(items)) + f"= {parts[0]}"
            items = ()
        elif f"t{i}" in last_use or call.stores or items:
            parts[0] = f"t{i} = {parts[0]}"
        parts += [f"V[{slot}] = t{i}" + ("" if port is None else f"[{port}]") for slot, port in call.stores]
        parts += [f"t{i}_{port} = t{i}[{port}]" for port in items]  # each on its own, to be free on its own
        drops = [*dying.get(i, ()), *([f"t{i}"] if (call.stores or items) and f"t{i}" not in last_use else [])]
        source.append("    " + "; ".join(parts) + (f"; del {', '.join(drops)}" if drops else ""))
        nodes[len(source)] = call.node
    source.append("    return None")
    exec(compile("\n".join(source), filename, "exec"), names)  # our own text: indices and k/c/t names only
    return Segment(with_room(names["run"], len(calls)), filename, nodes)


def _named(call: Call) -> Any:
    """The variable that a line always gives."""
    return call.function() if call.is_name and not call.args and not isinstance(call.function, str) else None


_CHUNK_WORDS = 16 * 1024 // 8  # of the memory in which Python puts a thread's frames
WORTH_ROOM = 128  # calls


def with_room(run: Callable[..., Any], calls: int) -> Callable[..., Any]:
    """run, whose frame of `calls` calls has room behind it.

    Python keeps frames in chunks of 16 KiB and gives a chunk back as soon as it is empty. Where a frame ends just
    before the end of its chunk, each call from it maps memory and unmaps it again, which takes 7 us; how deep the
    caller is decides whether that is so. A frame larger than a chunk gets one of its own, of twice the size, for 9 us
    a run.
    """
    code = run.__code__
    held = len(code.co_varnames) + len(code.co_cellvars) + len(code.co_freevars)
    if calls >= WORTH_ROOM and held + code.co_stacksize <= _CHUNK_WORDS:
        run.__code__ = code.replace(co_stacksize=_CHUNK_WORDS + 1 - held)
    return run


def last_uses(calls: Sequence[Call]) -> dict[str, int]:
    """Local variable -> the last line that reads it."""
    return {name: i for i, call in enumerate(calls) for arg in call.args if (name := local_name(arg))}


def local_name(arg: tuple[Any, ...]) -> str:
    """The local variable that an arg is, or nothing."""
    kind = arg[0].lstrip("&")
    return f"t{arg[1]}" if kind == "local" else f"t{arg[1]}_{arg[2]}" if kind == "item" else ""


def used_ports(calls: Sequence[Call]) -> dict[int, list[int]]:
    """Line -> the outputs of it that later lines use, of lines with several."""
    found: dict[int, dict[int, None]] = {}
    for call in calls:
        for arg in call.args:
            if arg[0].lstrip("&") == "item":
                found.setdefault(arg[1], {})[arg[2]] = None
    return {line: list(ports) for line, ports in found.items()}


def value_of(
    call: Call,
    function: str,
    line: int,
    names: dict[str, Any],
    last_use: dict[str, int],
    variables: Container[int] = (),
) -> str:
    """The call as text. function: the name of its function, which is put into `names` with its constants. variables:
    the lines that give one for certain, and that one always."""
    args = [_expression(arg, line, position, names, variables) for position, arg in enumerate(call.args)]
    if isinstance(call.function, str):
        return call.function.format(*args)
    dying = [i for i in call.in_place if i < len(args) and last_use.get(args[i]) == line]
    names[function] = reusing(call.function, dying) if dying else call.function
    return f"{function}({', '.join(args)})"


def _expression(
    arg: tuple[Any, ...], line: int, position: int, names: dict[str, Any], variables: Container[int]
) -> str:
    kind = arg[0].lstrip("&")
    if kind == "const":
        names[f"c{line}_{position}"] = arg[1]
        return f"c{line}_{position}"
    text = f"V[{arg[1]}]" if kind == "slot" else local_name(arg)
    if arg[0] == "&local" and arg[1] in variables:
        return f"({text}.read() if {text}.value is None else {text}.value)"
    return f"read({text})" if arg[0].startswith("&") else text
