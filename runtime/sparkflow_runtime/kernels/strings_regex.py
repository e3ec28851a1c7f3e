"""Strings against patterns of RE2: matched as a whole, and rewritten."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import regex_loops
from sparkflow_runtime.kernels.regex_machines import Machine
from sparkflow_runtime.kernels.regex_patterns import Pattern, compiled
from sparkflow_runtime.kernels.registry import on_host, prepares
from sparkflow_runtime.kernels.strings import texts
from sparkflow_runtime.wire.tensor_proto import as_bytes

_KEPT = "surrogateescape"  # how bytes that are no UTF-8 go through texts


def _text(string: bytes) -> str:
    return string.decode(errors=_KEPT)


def _all_texts(array: np.ndarray) -> list[str]:
    """Decoded in one go where no string holds the byte between them."""
    flat = array.reshape(-1).tolist()
    found = _text(b"\0".join(flat)).split("\0")
    return found if len(found) == len(flat) else [*map(_text, flat)]


def _all_strings(found: list[str], shape: tuple[int, ...]) -> np.ndarray:
    """The way back."""
    flat = "\0".join(found).encode(errors=_KEPT).split(b"\0")
    if len(flat) != len(found):
        flat = [text.encode(errors=_KEPT) for text in found]
    return np.fromiter(flat, object, len(found)).reshape(shape)


# ---------------------------------------------------------------------- matching


def _matched(x: Any, pattern: Any) -> Any:
    own, array = compiled(as_bytes(pattern)), texts(x)
    machine, match = own.machine(True, array.size), own.found.fullmatch
    found = machine and regex_loops.all_match(array.reshape(-1), machine, own.nested)
    if found is not None:
        return found.reshape(array.shape)
    flat = [match(text) is not None for text in _all_texts(array)]
    return np.array(flat, np.bool_).reshape(array.shape)


on_host("RegexFullMatch")(lambda xp, x, pattern: _matched(x, texts(pattern).item()))
on_host("StaticRegexFullMatch")(lambda xp, x, *, pattern: _matched(x, pattern))


# ---------------------------------------------------------------------- rewriting


@on_host("RegexReplace")
def _regex_replace(xp: Any, x: Any, pattern: Any, rewrite: Any, *, replace_global: bool = True) -> Any:
    return _replaced(x, texts(pattern).item(), texts(rewrite).item(), replace_global)


@on_host("StaticRegexReplace")
def _static_replace(xp: Any, x: Any, *, pattern: Any, rewrite: Any, replace_global: bool = True) -> Any:
    return _replaced(x, pattern, rewrite, replace_global)


def _replaced(x: Any, pattern: Any, rewrite: Any, every: bool) -> Any:
    own = compiled(as_bytes(pattern))
    by = _rewriting(_text(as_bytes(rewrite)), own.found.groups, every)
    if by is None:
        return texts(x)
    array, pattern = texts(x), own.found
    machine = None if own.may_be_empty else own.machine(False, array.size)
    if machine is not None and (found := _by_machine(array.reshape(-1), machine, own, by, every)) is not None:
        return found.reshape(array.shape)
    given = _all_texts(array)
    if every and own.may_be_empty and (by or own.lazy):
        replace = _each_replaced if own.lazy else _all_replaced
        return _all_strings([replace(pattern, by, text) for text in given], array.shape)
    most = 0 if every else 1
    return _all_strings([pattern.sub(by, text, most) for text in given], array.shape)


def _by_machine(
    array: np.ndarray, machine: Machine, own: Pattern, by: str, every: bool
) -> np.ndarray | None:  # fmt: skip
    """None where the loops are not there. Where groups are written, re looks at the strings that hold a match."""
    pieces = _pieces(by)
    quick = regex_loops.rewritten(array, machine, pieces, every, own.nested)
    if quick is not None or not any(isinstance(piece, int) and piece for piece in pieces):
        return quick
    found = regex_loops.that_match(array, machine, own.nested)
    if found is None:
        return None
    out, most = array.copy(), 0 if every else 1
    given = [own.found.sub(by, text, most) for text in _all_texts(array[found])]
    out[found] = _all_strings(given, (len(given),))
    return out


def _pieces(by: str) -> list[bytes | int]:
    """What is written for a match: numbers are groups."""
    parts = _WRITTEN.split(by)  # text, the group or None for a backslash, text, ...
    found: list[bytes | int] = []
    for text, group in zip(parts[::2], [*parts[1::2], ""]):
        found += [text.encode(errors=_KEPT), b"\\" if group is None else int(group) if group else b""]
    return [piece for piece in found if piece != b""]


_WRITTEN = re.compile(r"\\(?:g<(\d)>|\\)")


def _all_replaced(pattern: re.Pattern[str], by: str, text: str) -> str:
    """As RE2 replaces, for which nothing at the end of a match is no match."""
    last, alike = -1, "\\" not in by

    def put(match: re.Match[str]) -> str:
        nonlocal last
        start, end = match.span()
        if start == end == last:
            return ""
        last = end
        return by if alike else match.expand(by)

    return pattern.sub(put, text)


def _each_replaced(pattern: re.Pattern[str], by: str, text: str) -> str:
    """The same one by one: where nothing stands at the end of a match, RE2 does not look for something there."""
    out, at, last = [], 0, -1
    while at <= len(text) and (match := pattern.search(text, at)):
        start, end = match.span()
        out.append(text[at:start])
        if start == end == last:
            out.append(text[end : end + 1])
            at, last = end + 1, -1
            continue
        out.append(match.expand(by))
        at = last = end
    return "".join([*out, text[at:]])


_MARK = re.compile(r"\\(.?)", re.DOTALL)


def _rewriting(rewrite: str, groups: int, every: bool) -> str | None:
    """RE2's rewriting as Python's: \\0 to \\9 are groups of one digit, two backslashes one. None leaves every string
    as it is: a group that the pattern has not. Of anything else behind a backslash RE2 writes what comes before it, or
    replaces nothing where it is to do so once."""
    marks = list(_MARK.finditer(rewrite))
    if any(_is_group(m[1]) and int(m[1]) > groups for m in marks):
        return None
    wrong = next((m.start() for m in marks if m[1] != "\\" and not _is_group(m[1])), None)
    if wrong is not None and not every:
        return None
    return _MARK.sub(lambda m: r"\\" if m[1] == "\\" else f"\\g<{m[1]}>", rewrite[:wrong])


def _is_group(char: str) -> bool:
    return char.isascii() and char.isdigit()


prepares(regex_loops.prepare, "RegexFullMatch", "StaticRegexFullMatch", "RegexReplace", "StaticRegexReplace")
