"""A segment's first run, call by call.

Generating and compiling a segment's code takes 40 us a call, and what prepares a model (initializers, what restores a
checkpoint, checks whether all is there) runs once: its code is not made before it runs again (worker/adapt.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from types import TracebackType
from typing import Any

from sparkflow_runtime.worker.codegen import Call, Segment, last_uses, local_name, read, used_ports
from sparkflow_runtime.worker.reuse import reusing


def interpret(
    segment: Segment | None, calls: Sequence[Call], values: list[Any], lines: Sequence[int] | None = None
) -> None:
    """What the generated code of these calls does: values are dropped and memory is taken where it would. segment:
    whose calls they are, for errors. lines: those to run, with all that they take values of; all of them by default."""
    last_use, ports = last_uses(calls), used_ports(calls)
    made: dict[str, Any] = {}
    for line in range(len(calls)) if lines is None else lines:
        call = calls[line]
        names = [local_name(arg) for arg in call.args]
        inputs = [_input(arg, name, values, made) for arg, name in zip(call.args, names)]
        for name in names:
            if name and last_use[name] == line:
                made.pop(name, None)  # an input twice is dropped once
        function = call.function
        if isinstance(function, str):
            out = _expression(function, len(inputs))(*inputs)
        else:
            dying = [i for i in call.in_place if i < len(names) and _dies(call.args[i], names[i], line, last_use)]
            out = (reusing(function, dying, _in_turn) if dying else function)(*inputs)
        del inputs
        for slot, port in call.stores:
            values[slot] = out if port is None else out[port]
        for port in ports.get(line, ()):
            made[f"t{line}_{port}"] = out[port]
        if f"t{line}" in last_use:
            made[f"t{line}"] = out
        del out


_CODE = interpret.__code__


def node_at(traceback: TracebackType, segment: Segment) -> str:
    """The node at which that segment was interpreted; "" where the frame is of something else."""
    frame = traceback.tb_frame
    if frame.f_code is not _CODE or frame.f_locals["segment"] is not segment:
        return ""
    found: str = frame.f_locals["call"].node
    return found


def _input(arg: tuple[Any, ...], name: str, values: list[Any], made: dict[str, Any]) -> Any:
    kind = arg[0]
    if name:
        value = made[name]
    else:
        value = values[arg[1]] if kind in ("slot", "&slot") else arg[1]
    return read(value) if kind[0] == "&" and kind != "&const" else value


def _dies(arg: tuple[Any, ...], name: str, line: int, last_use: dict[str, int]) -> bool:
    return bool(name) and arg[0][0] != "&" and last_use[name] == line


@cache
def _expression(form: str, inputs: int) -> Callable[..., Any]:
    """'{} + {}' as a function. Our own text (kernels/scalars.py)."""
    names = [f"x{i}" for i in range(inputs)]
    found: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {form.format(*names)}")
    return found


def _in_turn(make: Callable[[], Any], use: Callable[..., Any]) -> None:
    """How `interpret` has a value that it hands to its last user."""
    interpret(None, [Call("make", make, ()), Call("use", use, [("local", 0)])], [])
