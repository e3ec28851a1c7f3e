"""Patterns of RE2, which TensorFlow's string ops take, as patterns of Python's re on texts.

They differ: in RE2 a dot and a negated class are characters of UTF-8, never bytes that are none; classes such as \\w
are ASCII's; `$` is the end of all; there are classes by name ([[:alpha:]], \\pL) and \\z; nothing looks around or back.
Texts are decoded with surrogates for bytes that are no UTF-8. Source: the syntax page of RE2 and its parser. Not
supported: \\C, and classes of scripts (\\p{Greek}).
"""

from __future__ import annotations

import re
import sys
import unicodedata
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby

from sparkflow_runtime.kernels.regex_machines import Machine, machine_of
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

_NONE = "\udc80-\udcff"  # bytes that are no characters: nothing matches them
_LAST = "\udc7f\udd00-\U0010ffff"  # the end of a range of all characters from its beginning on
_PERL = {"d": "0-9", "s": "\\t\\n\\f\\r ", "w": "0-9A-Za-z_"}
_NOT_PERL = {
    "D": f"\\x00-/:-{_LAST}",
    "S": f"\\x00-\\x08\\x0b\\x0e-\\x1f!-{_LAST}",
    "W": f"\\x00-/:-@\\[-\\^`{{-{_LAST}",
}
_POSIX = {
    "alnum": "0-9A-Za-z", "alpha": "A-Za-z", "ascii": "\\x00-\\x7f", "blank": "\\t ", "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9", "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": "\\t-\\r ",
    "upper": "A-Z", "word": "0-9A-Za-z_", "xdigit": "0-9A-Fa-f",
}  # fmt: skip
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
_FLAGS = re.compile(r"([imsU]*)(?:-([imsU]+))?([:)])")
_NAME = re.compile(r"P<\w+>")
_SEVERAL = re.compile(r"\)[*+?{]|(?<!\\)\|")  # repetitions and alternatives, as they are written for re
_MOST = 1000  # repetitions
_WORTH = 2000  # strings, matched by re in the time that a table takes


@dataclass
class Pattern:
    """found: on texts; may_be_empty: whether it may match nothing; lazy: whether it may do so where it could match
    something; nested: whether it repeats what has repetitions or alternatives."""

    found: re.Pattern[str]
    may_be_empty: bool
    lazy: bool
    nested: bool
    _seen: int = 0
    _machines: dict[bool, Machine | None] = field(default_factory=dict)

    def machine(self, whole: bool, count: int) -> Machine | None:
        """Its table, of matches of whole strings or of parts; None where it has none, and until it has been asked about
        so many strings that making one is worth while, or re could take forever."""
        self._seen += count
        if self._seen < _WORTH and not self.nested:
            return None
        if whole not in self._machines:
            self._machines[whole] = machine_of(self.found, whole)
        return self._machines[whole]


@lru_cache(256)
def compiled(pattern: bytes) -> Pattern:
    """Raises InvalidArgumentError on what RE2 does not take, UnimplementedError on classes of scripts."""
    try:
        reader = _Reader(pattern.decode())
        text, empty = reader.alternatives("", 0)
        return Pattern(re.compile(text), empty, reader.lazy, reader.nested)
    except (re.error, _Wrong, UnicodeDecodeError, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(f"Invalid pattern: {pattern.decode(errors='replace')}, error: {error}") from None


class _Wrong(Exception):
    """What the pattern has that RE2 does not take."""


class _Reader:
    def __init__(self, text: str):
        self.text, self.at, self.lazy, self.nested = text, 0, False, False

    def _taken(self, what: str) -> bool:
        if self.text.startswith(what, self.at):
            self.at += len(what)
            return True
        return False

    def _next(self, where: str) -> str:
        if self.at >= len(self.text):
            raise _Wrong(f"missing end of {where}")
        self.at += 1
        return self.text[self.at - 1]

    # ------------------------------------------------------------------ alternatives, repetitions

    def alternatives(self, flags: str, depth: int) -> tuple[str, bool]:
        """(the same for re, whether it may be empty) up to the end of the group. Flags hold to there."""
        out: list[str] = []
        last: tuple[str, bool] | None = None
        any_empty, empty = False, True
        while self.at < len(self.text) and not (depth and self.text[self.at] == ")"):
            repeated = self._repetition(flags, last)
            if repeated is not None:
                out[-1], own = repeated
                last, empty = None, empty and own
                continue
            if last is not None:
                empty = empty and last[1]
            if self._taken("|"):
                any_empty, empty, last, self.lazy = any_empty or empty, True, None, True
                out.append("|")
                continue
            if (changed := self._flags(flags)) is not None:
                flags, last = changed, None
                continue
            last = self._atom(flags, depth)
            out.append(last[0])
        if last is not None:
            empty = empty and last[1]
        return "".join(out), any_empty or empty

    def _repetition(self, flags: str, last: tuple[str, bool] | None) -> tuple[str, bool] | None:
        """What comes before, repeated, where a repetition stands here."""
        count = _COUNT.match(self.text, self.at)
        if self.text[self.at] not in "*+?" and not count:
            return None
        mark = count[0] if count else self.text[self.at]
        if last is None:
            raise _Wrong(f"no argument for repetition operator, or two of them: {mark}")
        if count and max(int(n) for n in (count[1], count[3] or 0)) > _MOST:
            raise _Wrong(f"invalid repetition size: {mark}")
        self.at += len(mark)
        lazy = self._taken("?") != ("U" in flags)
        self.lazy |= lazy
        self.nested |= mark != "?" and _SEVERAL.search(last[0]) is not None
        may_be_none = mark in "*?" if not count else int(count[1]) == 0
        return f"(?:{last[0]}){mark}{'?' if lazy else ''}", may_be_none or last[1]

    def _flags(self, flags: str) -> str | None:
        """The flags from here on, where they change for the rest of the group."""
        found = _FLAGS.match(self.text, self.at + 2) if self.text.startswith("(?", self.at) else None
        if found is None or found[3] == ":":
            return None
        self.at = found.end()
        return _changed(flags, found)

    def _atom(self, flags: str, depth: int) -> tuple[str, bool]:
        char = self._next("pattern")
        if char == "(":
            return self._group(flags, depth)
        if char == ")":
            raise _Wrong("unexpected )")
        if char == "[":
            return _insensitive(self._class(), flags), False
        if char == ".":
            return f"[^{_NONE}]" if "s" in flags else f"[^\\n{_NONE}]", False
        if char == "^":
            return "(?m:^)" if "m" in flags else "\\A", True
        if char == "$":
            return "(?m:$)" if "m" in flags else "\\Z", True
        if char == "\\":
            return self._escaped(flags)
        return _insensitive(re.escape(char), flags), False

    def _group(self, flags: str, depth: int) -> tuple[str, bool]:
        opening = "("
        if self._taken("?"):
            if name := _NAME.match(self.text, self.at):
                self.at = name.end()
            else:
                found = _FLAGS.match(self.text, self.at)
                if found is None:
                    raise _Wrong(f"invalid perl operator: (?{self.text[self.at : self.at + 1]}")
                self.at, flags, opening = found.end(), _changed(flags, found), "(?:"
        inner, empty = self.alternatives(flags, depth + 1)
        if not self._taken(")"):
            raise _Wrong("missing closing )")
        return f"{opening}{inner})", empty

    # ------------------------------------------------------------------ escapes

    def _escaped(self, flags: str) -> tuple[str, bool]:
        char = self._next("escape")
        if char in "Az":
            return ("\\A" if char == "A" else "\\Z"), True
        if char in "bB":
            return "(?a:\\b)" if char == "b" else "(?!(?a:\\b))", True  # re's \\B is not to be had of no text
        if char == "Q":
            text, _, _ = self.text[self.at :].partition("\\E")
            self.at = min(len(self.text), self.at + len(text) + 2)
            return _insensitive(f"(?:{re.escape(text)})", flags), not text
        if (found := self._class_escape(char)) is not None:
            return _insensitive(f"[{found}]", flags), False
        return _insensitive(re.escape(self._character(char)), flags), False

    def _class_escape(self, char: str) -> str | None:
        """What stands in a class for \\d, \\pL and their kind."""
        if char in _PERL or char in _NOT_PERL:
            return _PERL.get(char) or _NOT_PERL[char]
        if char not in "pP":
            return None
        name = self._next("class")
        if name == "{":
            name, _, rest = self.text[self.at :].partition("}")
            self.at = len(self.text) - len(rest)
        negated = (char == "P") != name.startswith("^")
        return _category(name.removeprefix("^"), negated)

    def _character(self, char: str) -> str:
        """Of an escape that is one character."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x":
            found = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self.text, self.at)
            if found and (code := int(found[1] or found[2], 16)) <= sys.maxunicode:
                self.at = found.end()
                return chr(code)
        elif char in "01234567":
            octal = re.compile("[0-7]{0,2}").match(self.text, self.at)
            if octal and (char == "0" or octal[0]):
                self.at = octal.end()
                return chr(int(char + octal[0], 8))
        elif char < "\x80" and not char.isalnum():
            return char
        raise _Wrong(f"invalid escape sequence: \\{char}")

    # ------------------------------------------------------------------ classes

    def _class(self) -> str:
        negated, parts, first = self._taken("^"), [], True
        while first or not self._taken("]"):
            first = False
            posix = re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at)
            if posix:
                if posix[2] not in _POSIX:
                    raise _Wrong(f"invalid character class range: {posix[0]}")
                self.at = posix.end()
                parts.append(_without(_POSIX[posix[2]]) if posix[1] else _POSIX[posix[2]])
                continue
            char = self._next("class: ]")
            if char == "\\":
                escape = self._next("escape")
                if (found := self._class_escape(escape)) is not None:
                    parts.append(found)
                    continue
                char = self._character(escape)
            parts.append(self._range(char))
        return f"[^{''.join(parts)}{_NONE}]" if negated else f"[{''.join(parts)}]"

    def _range(self, low: str) -> str:
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return _in_class(low)
        self.at += 1
        high = self._next("class: ]")
        high = self._character(self._next("escape")) if high == "\\" else high
        if high < low:
            raise _Wrong(f"invalid character class range: {low}-{high}")
        return f"{_in_class(low)}-{_in_class(high)}"


def _changed(flags: str, found: re.Match[str]) -> str:
    return "".join(sorted((set(flags) | set(found[1])) - set(found[2] or "")))


def _insensitive(atom: str, flags: str) -> str:
    return f"(?i:{atom})" if "i" in flags else atom


def _in_class(char: str) -> str:
    return char if char.isalnum() or char > "\x7f" else f"\\x{ord(char):02x}"


def _without(members: str) -> str:
    """A class of all characters but these of ASCII."""
    inside = re.compile(f"[{members}]")
    out = [chr(c) for c in range(128) if not inside.fullmatch(chr(c))]
    return "".join(map(_in_class, out)) + f"\x80-{_LAST}"


@lru_cache(64)
def _category(name: str, negated: bool) -> str:
    """The characters of a general category, or those that are not of it, as ranges."""
    if not re.fullmatch("[LMNPSZC][a-z]?|Any", name):
        if len(name) < 3:
            raise _Wrong(f"invalid character class range: \\p{{{name}}}")
        raise UnimplementedError(f"Regular expression: scripts, as \\p{{{name}}}, are not supported, categories are")
    codes = (c for c in range(sys.maxunicode + 1) if not 0xD800 <= c < 0xE000)
    members = [
        c for c in codes if (name == "Any" or unicodedata.category(chr(c)).startswith(name)) != negated
    ]  # fmt: skip
    runs = [[c for _, c in run] for _, run in groupby(enumerate(members), lambda pair: pair[1] - pair[0])]
    return "".join(f"\\U{run[0]:08x}-\\U{run[-1]:08x}" for run in runs)
