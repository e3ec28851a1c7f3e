"""Patterns as tables: from a state and a byte to the next state, for loops that go through strings byte by byte.

A pattern's tree, as re parses it, becomes a program of instructions on bytes (Thompson 1968), and lists of its
instructions become states (the subset construction). A list is in the order in which RE2 would try them, and ends with
what has matched: so a state knows which match of those from one beginning RE2 would take (Cox, "Regular expression
matching: the virtual machine approach"). What looks around, and what takes too many states, has no table, and is
matched by re, which may try every way through a repetition of repetitions: twice as many for each character more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

MOST_STATES, _MOST_STEPS, _MOST_INSTRUCTIONS = 400, 50_000, 2000
MATCHED, MATCHED_AT_END = 1, 2
_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF
_FOLDED = (
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ\u0130\u0131\u017f\u212a"  # with all that fold to ASCII's
)


class Machine(NamedTuple):
    """table[256 * state + byte]: the next state, 0 where nothing matches any more. marks[state]: MATCHED, and
    MATCHED_AT_END where that holds if the string ends there. begin, later: the states of a match that begins with the
    string, and after that. program: the instructions that it is made of, four numbers each (ORDER, two operands, the
    next one), and entry the first of them."""

    table: np.ndarray
    marks: np.ndarray
    begin: int
    later: int
    program: np.ndarray
    entry: int


ORDER = {"match": 0, "bytes": 1, "split": 2, "begin": 3, "end": 4, "save": 5}


def machine_of(pattern: re.Pattern[str], whole: bool) -> Machine | None:
    """whole: of matches of whole strings. None where there is none."""
    try:
        return _States(_Program(pattern, whole)).machine()
    except (_Unfit, RecursionError, ImportError):
        return None


class _Unfit(Exception):
    """No table is made of this."""


class _Program:
    """Instructions (kind, ...): bytes (low, high, next), splits (next, next, ...) in their order, saves (where to,
    next) of the place in a string, and conditions (next)."""

    def __init__(self, pattern: re.Pattern[str], whole: bool):
        self.code: list[Any] = [("match",)]
        tree = import_module("re._parser").parse(pattern.pattern)
        self.first = self._sequence(tree, self._add("end", 0) if whole else 0, bool(tree.state.flags & re.I))

    def _add(self, *instruction: Any) -> int:
        if len(self.code) >= _MOST_INSTRUCTIONS:
            raise _Unfit
        self.code.append(instruction)
        return len(self.code) - 1

    def _sequence(self, tree: Any, after: int, folded: bool) -> int:
        for kind, argument in reversed(list(tree)):
            after = self._node(str(kind), argument, after, folded)
        return after

    def _node(self, kind: str, argument: Any, after: int, folded: bool) -> int:
        match kind:
            case "LITERAL":
                return self._characters(_ranges([(kind, argument)], folded), after)
            case "IN":
                return self._characters(_ranges(argument, folded), after)
            case "BRANCH":
                return self._add("split", *[self._sequence(one, after, folded) for one in argument[1]])
            case "SUBPATTERN":
                group, added, dropped, inner = argument
                if dropped or added & ~(re.I | re.U):
                    raise _Unfit
                if group is None:
                    return self._sequence(inner, after, folded or bool(added & re.I))
                after = self._add("save", 2 * group + 1, after)
                return self._add("save", 2 * group, self._sequence(inner, after, folded or bool(added & re.I)))
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, body = argument
                return self._repeated(least, most, body, after, folded, kind == "MAX_REPEAT")
            case "AT" if str(argument) == "AT_BEGINNING_STRING":
                return self._add("begin", after)
            case "AT" if str(argument) == "AT_END_STRING":
                return self._add("end", after)
        raise _Unfit

    def _repeated(self, least: int, most: int, body: Any, after: int, folded: bool, greedy: bool) -> int:
        order = (lambda a, b: (a, b)) if greedy else (lambda a, b: (b, a))
        if most - least > _MOST_INSTRUCTIONS:
            loop = self._add("split")
            begin = self._sequence(body, loop, folded)
            self.code[loop] = ("split", *order(begin, after))
            after = loop if body.getwidth()[0] else self._add("split", *order(begin, after))  # as RE2 has (x+)? for x*
        else:
            end = after
            for _ in range(most - least):
                after = self._add("split", *order(self._sequence(body, after, folded), end))
        for _ in range(least):
            after = self._sequence(body, after, folded)
        return after

    def _characters(self, ranges: list[tuple[int, int]], after: int) -> int:
        heads = []
        for low, high in ranges:
            for sequence in _encoded(low, high):
                at = after
                for first, last in reversed(sequence):
                    at = self._add("bytes", first, last, at)
                heads.append(at)
        return heads[0] if len(heads) == 1 else self._add("split", *heads)

    def orders(self) -> np.ndarray:
        """The instructions as numbers, of splits those in two."""
        out = [[0, 0, 0, 0] for _ in self.code]
        for at, (kind, *operands) in enumerate(self.code):
            while len(operands) > 2 and kind == "split":
                out.append([0, 0, 0, 0])
                out[at], at = [ORDER[kind], operands.pop(0), len(out) - 1, 0], len(out) - 1
            match kind:
                case "split":
                    out[at] = [ORDER[kind], *operands, 0]
                case "match":
                    pass
                case _:
                    out[at] = [ORDER[kind], *operands[:-1], *[0] * (3 - len(operands)), operands[-1]]
        return np.array(out, np.int64).reshape(-1)


def _ranges(items: Any, folded: bool) -> list[tuple[int, int]]:
    """Of a class, in their order, without surrogates. folded: capitals are as small letters."""
    negated, found = False, []
    for kind, argument in items:
        match str(kind):
            case "NEGATE":
                negated = True
            case "LITERAL":
                found.append((argument, argument))
            case "RANGE":
                found.append(argument)
            case _:
                raise _Unfit
    found = _merged(found, _SURROGATES)
    found = _folded(found) if folded else found
    return _merged(_without(found), _SURROGATES) if negated else found


def _merged(ranges: list[tuple[int, int]], left_out: tuple[int, int]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if out and low <= out[-1][1] + 1:
            out[-1] = (out[-1][0], max(high, out[-1][1]))
        else:
            out.append((low, high))
    a, b = left_out
    parts = [part for low, high in out for part in ((low, min(high, a - 1)), (max(low, b + 1), high))]
    return [part for part in parts if part[0] <= part[1]]


def _without(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    begins = [0, *[high + 1 for _, high in ranges]]
    ends = [*[low - 1 for low, _ in ranges], _LAST]
    return [(low, high) for low, high in zip(begins, ends) if low <= high]


def _folded(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The characters that a class matches where capitals are as small letters: of ASCII, or all others too."""
    above = [(max(low, 128), high) for low, high in ranges if high >= 128]
    if above and above != [(128, _SURROGATES[0] - 1), (_SURROGATES[1] + 1, _LAST)]:
        raise _Unfit
    inside = "".join(f"\\U{low:08x}-\\U{high:08x}" for low, high in ranges)
    if not inside:
        return ranges
    pattern = re.compile(f"(?i:[{inside}])")
    kept = ranges
    for char in map(ord, _FOLDED):
        kept = _merged(kept, (char, char))
    return _merged([*kept, *[(ord(char), ord(char)) for char in _FOLDED if pattern.match(char)]], _SURROGATES)


def _encoded(low: int, high: int) -> Iterator[list[tuple[int, int]]]:
    """The same as sequences of ranges of the bytes of UTF-8."""
    for bound in (0x7F, 0x7FF, 0xFFFF):
        if low <= bound < high:
            yield from _encoded(low, bound)
            yield from _encoded(bound + 1, high)
            return
    if low < 0x80:
        yield [(low, high)]
        return
    for inner in (0x3F, 0xFFF, 0x3FFFF):
        if low & ~inner != high & ~inner:
            cut = low | inner if low & inner else (high & ~inner) - 1
            if (low & inner) or (high & inner) != inner:
                yield from _encoded(low, cut)
                yield from _encoded(cut + 1, high)
                return
    yield [*zip(chr(low).encode(), chr(high).encode())]


class _States:
    def __init__(self, program: _Program):
        self._program, self._code, self._steps = program, program.code, 0
        self._numbers: dict[tuple[int, ...], int] = {(): 0}
        self._todo: list[tuple[int, ...]] = [()]
        self._begin, self._later = (self._number(self._closed([program.first], at)) for at in (True, False))

    def machine(self) -> Machine:
        bounds = {0, 256}
        for kind, *arguments in self._code:
            if kind == "bytes":
                bounds |= {arguments[0], arguments[1] + 1}
        cuts, rows = sorted(bounds), []
        widths, at = np.diff(cuts), 0
        while at < len(self._todo):
            state, at = self._todo[at], at + 1
            rows.append(
                np.repeat([self._number(self._closed(self._moved(state, cut), False)) for cut in cuts[:-1]], widths)
            )
        marks = [MATCHED * (0 in state) | MATCHED_AT_END * self._ends(state) for state in self._todo]
        table = np.concatenate(rows).astype(np.uint16)
        orders = self._program.orders()
        return Machine(table, np.array(marks, np.uint8), self._begin, self._later, orders, self._program.first)

    def _number(self, state: tuple[int, ...]) -> int:
        if state not in self._numbers:
            if len(self._numbers) >= MOST_STATES:
                raise _Unfit
            self._numbers[state] = len(self._todo)
            self._todo.append(state)
        return self._numbers[state]

    def _moved(self, state: tuple[int, ...], byte: int) -> list[int]:
        code = self._code
        return [code[at][3] for at in state if code[at][0] == "bytes" and code[at][1] <= byte <= code[at][2]]

    def _closed(self, places: list[int], begins: bool, ends: bool = False) -> tuple[int, ...]:
        """What waits for a byte, for the end or for nothing, in the order of trying, up to the first match."""
        out, seen, stack = [], set(), places[::-1]
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            self._steps += 1
            if self._steps > _MOST_STEPS:
                raise _Unfit
            kind, *arguments = self._code[at]
            if kind == "split":
                stack += arguments[::-1]
            elif kind == "save":
                stack.append(arguments[1])
            elif kind == "begin":
                if ends:
                    raise _Unfit
                stack += arguments if begins else []
            elif kind == "end" and ends:
                stack += arguments
            else:
                out.append(at)
                if kind == "match":
                    break
        return tuple(out)

    def _ends(self, state: tuple[int, ...]) -> bool:
        return 0 in self._closed([at for at in state if self._code[at][0] != "bytes"], False, True)
