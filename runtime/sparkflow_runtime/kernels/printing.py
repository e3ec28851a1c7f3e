"""Tensors as text, and text on its way out."""

from __future__ import annotations

import logging
import struct
import sys
from functools import partial
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.host import host
from sparkflow_runtime.kernels.registry import Function, Node, bound, on_host
from sparkflow_runtime.wire.errors import InvalidArgumentError

_log = logging.getLogger("sparkflow")
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
_ESCAPES = {ord("\n"): r"\n", ord("\t"): r"\t", ord("\r"): r"\r", ord('"'): r"\"", ord("'"): r"\'", ord("\\"): r"\\"}


def _quoted(text: bytes) -> str:
    """As a literal of C."""
    return '"' + "".join(_ESCAPES.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in text) + '"'


def _number(value: Any) -> str:
    """As few digits as tell the number, of the two precisions that C has for its type."""
    few, many = (15, 17) if value.dtype.itemsize == 8 else (6, 9)
    number = float(value)
    if number != number or number in (float("inf"), float("-inf")):
        return str(number)
    short = f"{number:.{few}g}"
    same = float(short) == number
    if few == 6:
        same = struct.pack("f", float(short)) == struct.pack("f", number)
    return short if same else f"{number:.{many}g}"


def _element(value: Any) -> str:
    if isinstance(value, (bytes, str)):
        return _quoted(value if isinstance(value, bytes) else value.encode())
    kind = np.asarray(value).dtype.kind
    if kind in "iub":
        return str(int(value))
    return "?" if kind == "c" else _number(value)


def shown(array: Any, summarize: int, indent: int = 0) -> str:
    """In brackets, the first and last `summarize` of each axis, all where that is -1."""
    if not array.ndim:
        return _element(array[()])
    n = len(array)
    all_of_them = summarize < 0 or n <= 2 * summarize
    places: list[int | None] = [*range(n)] if all_of_them else [*range(summarize), None, *range(n - summarize, n)]
    inner = _element if array.ndim == 1 else partial(shown, summarize=summarize, indent=indent + 1)
    parts = ["..." if i is None else inner(array[i]) for i in places]
    gap = " " if array.ndim == 1 else "\n" * (array.ndim - 1) + " " * (indent + 1)
    return f"[{gap.join(parts)}]"


@on_host("StringFormat")
def _string_format(xp: Any, *inputs: Any, template: Any, placeholder: Any, summarize: int = 3) -> Any:
    text, mark = (v.decode() if isinstance(v, bytes) else v for v in (template, placeholder))
    parts = text.split(mark)
    if len(parts) != len(inputs) + 1:
        raise InvalidArgumentError(
            f"num placeholders in template and num inputs must match: {len(parts) - 1} vs. {len(inputs)}"
        )
    filled = [shown(np.asarray(host(x)), summarize) for x in inputs]
    return np.array("".join(a + b for a, b in zip(parts, [*filled, ""])).encode(), object)


def _write(stream: str, text: str) -> None:
    if stream.startswith("log("):
        _log.log(_LEVELS[stream[4:-1]], "%s", text)
    elif stream.startswith("file://"):
        with open(stream.removeprefix("file://"), "a", encoding="utf-8") as file:
            file.write(text)
    else:
        print(text, end="", file=sys.stdout if stream == "stdout" else sys.stderr, flush=True)


@bound("PrintV2", multi=True)
def _print_v2(node: Node) -> Function:
    stream, end = (v.decode() if isinstance(v, bytes) else v for v in (node.attrs["output_stream"], node.attrs["end"]))
    known = stream in ("stdout", "stderr") or stream.startswith("file://") or stream[4:-1] in _LEVELS
    if not known:
        raise InvalidArgumentError(node, None, f"Unknown output stream: {stream}")

    def run(text: Any) -> list[Any]:
        _write(stream, host(text).item().decode(errors="replace") + ("" if stream.startswith("log(") else end))
        return []

    return run
