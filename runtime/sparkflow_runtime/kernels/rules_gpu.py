"""An optimizer's rule on a GPU as one kernel, that reads and writes each of var and slots once.

The rule, of `rules`, is called with values that write down what is done to them, a line of C each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import rules
from sparkflow_runtime.kernels.elementwise_gpu import C_TYPES, FORMS, Elementwise

_FLOATS = (np.dtype("f4"), np.dtype("f8"))


def apply_rule(
    xp: Any, rule: str, attrs: dict[str, Any], held: Sequence[Any], grad: Any, scalars: Sequence[Any]
) -> bool:
    """Change var and slots by a gradient of their shape. False, and nothing done, where their types have no kernel."""
    dtype = grad.dtype
    given = [*held, grad, *(s if type(s) is type(grad) else xp.asarray(s) for s in scalars)]
    if dtype not in _FLOATS or any(x.dtype != dtype for x in given):
        return False
    flags = tuple(sorted((name, value) for name, value in attrs.items() if isinstance(value, bool)))
    _compile(xp, rule, flags, dtype, len(held), len(scalars))(given, held)
    return True


@lru_cache(maxsize=256)
def _compile(
    xp: Any, rule: str, flags: tuple[tuple[str, bool], ...], dtype: np.dtype[Any], refs: int, scalars: int
) -> Elementwise:
    lines = _Lines(C_TYPES[dtype])
    held = [_Held(lines, f"x{i}") for i in range(refs)]
    grad, *factors = [_Value(lines, f"x{refs + i}") for i in range(1 + scalars)]
    getattr(rules, rule)(_Functions(lines), dict(flags), held, grad, *factors)
    text = [*lines.written, *(f"y{i} = {one.name};" for i, one in enumerate(held))]
    return Elementwise(xp, [dtype] * (refs + 1 + scalars), [dtype] * refs, "\n".join(text), f"sparkflow_{rule}")


class _Lines:
    def __init__(self, kind: str):
        self.kind, self.written = kind, list[str]()

    def add(self, form: str, *parts: Any) -> str:
        """The name of a new value."""
        names = [part.name if isinstance(part, _Value) else f"({self.kind})({float(part)!r})" for part in parts]
        self.written.append(f"const {self.kind} s{len(self.written)} = {form.format(*names)};")
        return f"s{len(self.written) - 1}"


class _Value:
    """What a rule computes with."""

    dtype = np.dtype("f4")  # rules only hand it on

    def __init__(self, lines: _Lines, name: str):
        self._lines, self.name = lines, name

    def _made(self, form: str, *parts: Any) -> _Value:
        return _Value(self._lines, self._lines.add(form, *parts))

    def __add__(self, other: Any) -> _Value:
        return self._made("{0} + {1}", self, other)

    def __sub__(self, other: Any) -> _Value:
        return self._made("{0} - {1}", self, other)

    def __mul__(self, other: Any) -> _Value:
        return self._made("{0} * {1}", self, other)

    def __truediv__(self, other: Any) -> _Value:
        return self._made("{0} / {1}", self, other)

    def __radd__(self, other: Any) -> _Value:
        return self._made("{1} + {0}", self, other)

    def __rsub__(self, other: Any) -> _Value:
        return self._made("{1} - {0}", self, other)

    def __rmul__(self, other: Any) -> _Value:
        return self._made("{1} * {0}", self, other)

    def __gt__(self, other: Any) -> _Value:
        """1 or 0."""
        return self._made("{0} > {1}", self, other)

    def __neg__(self) -> _Value:
        return self._made("-{0}", self)

    def __eq__(self, other: object) -> bool:
        """What a factor is, is not known here: a rule then takes its general form."""
        return False

    __hash__ = None  # type: ignore[assignment]

    def astype(self, dtype: Any) -> _Value:
        return self


class _Held(_Value):
    """var or a slot: what is done in place gives it another value from there on."""

    def _becomes(self, form: str, other: Any) -> _Held:
        self.name = self._lines.add(form, self, other)
        return self

    def __iadd__(self, other: Any) -> _Held:
        return self._becomes("{0} + {1}", other)

    def __isub__(self, other: Any) -> _Held:
        return self._becomes("{0} - {1}", other)

    def __imul__(self, other: Any) -> _Held:
        return self._becomes("{0} * {1}", other)

    def __setitem__(self, where: Any, value: _Value) -> None:
        self.name = value.name


class _Functions:
    """In numpy's place."""

    def __init__(self, lines: _Lines):
        self._lines = lines

    def _made(self, form: str, *parts: Any) -> _Value:
        return _Value(self._lines, self._lines.add(form, *parts))

    def __getattr__(self, name: str) -> Callable[..., _Value]:
        form = FORMS["absolute" if name == "abs" else name]
        return lambda *parts: self._made(form, *parts)

    def asarray(self, x: _Value) -> _Value:
        return x

    def where(self, chosen: _Value, x: Any, y: Any) -> _Value:
        return self._made("{0} != 0 ? {1} : {2}", chosen, x, y)

    def clip(self, x: _Value, low: Any, high: Any) -> _Value:
        return self.minimum(self.maximum(x, low), high)
