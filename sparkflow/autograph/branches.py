"""`if` of converted functions: Python's own where the condition is known, else both branches in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sparkflow.autograph.jumps import RESULT
from sparkflow.autograph.values import Undefined, symbolic
from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor, is_tensor_like
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.program_order import ProgramOrder, merged, ordered
from sparkflow.ops import array, control_flow_cond
from sparkflow.ops.control_flow_context import CondContext

Get = Callable[[], tuple[Any, ...]]
Put = Callable[[Any], None]
_NUMBERS = (bool, int, float, complex)


def if_stmt(
    condition: Any, then: Callable[[], None], other: Callable[[], None], get: Get, put: Put, names: tuple[str, ...],
    count: int, text: str,
) -> None:  # fmt: skip
    """`if condition: then() else: other()`. get, put: the values of `names`, the first `count` of which are read later.

    Raises TypeError or ValueError where a name's value is of another type or structure after the other branch.
    """
    if not symbolic(condition):
        (then if condition else other)()
        return
    branches = _Branches(condition, text)
    before = get()
    ends = []
    for number, function in ((1, then), (0, other)):
        put(before)
        with branches.inside(number):
            function()
            ends.append(get()[:count])
    joined = branches.join(list(zip(names, *ends)))
    put((*joined, *[Undefined(name, "it is assigned in a branch only") for name in names[count:]]))


def if_exp(condition: Any, then: Callable[[], Any], other: Callable[[], Any], text: str) -> Any:
    """`then() if condition else other()`."""
    if not symbolic(condition):
        return then() if condition else other()
    branches = _Branches(condition, text)
    ends = []
    for number, function in ((1, then), (0, other)):
        with branches.inside(number):
            ends.append(function())
    return branches.join([(f"the value of 'if {text}'", *ends)])[0]


class _Branches:
    """A cond whose branches are made first, and what comes out of them chosen after both are known."""

    def __init__(self, condition: Any, text: str):
        self._graph, self._text = get_default_graph(), text
        self._order = self._graph._order
        self._inner = {1: ProgramOrder(), 0: ProgramOrder()}
        waits = [] if self._order is None else self._order.waits()
        with self._graph.name_scope("cond"), self._graph.control_dependencies(waits):
            pivots, pred = control_flow_cond._pivots(convert_to_tensor(condition))
        self._contexts = {n: CondContext(pred, pivots[n], n) for n in (1, 0)}
        self._merged: list[Tensor] = []

    @contextmanager
    def inside(self, number: int) -> Iterator[None]:
        context = self._contexts[number]
        context.Enter()
        try:
            with ordered(self._graph, None if self._order is None else self._inner[number]):
                yield
        finally:
            context.Exit()

    def join(self, rows: list[tuple[str, Any, Any]]) -> list[Any]:
        """What each name is after the branches, of what it is at the end of either."""
        found = [self._joined(name, then, other) for name, then, other in rows]
        for number in (1, 0):
            self._graph.add_to_collection(GraphKeys.COND_CONTEXT, self._contexts[number])
        if self._order is not None:
            inner = merged(self._inner.values())
            if not self._merged and not inner.is_empty:
                self._pair(True, True)
            self._order.took(inner, [t.op for t in self._merged])
        return found

    def _joined(self, name: str, then: Any, other: Any) -> Any:
        if then is other:
            return then
        missing = [isinstance(v, Undefined) for v in (then, other)]
        if any(missing):
            if all(missing) or name != RESULT:
                where = "else" if missing[1] else "main"
                return Undefined(name, f"it must also be initialized in the {where} branch of 'if {self._text}', "
                                 "whose condition is a tensor, or before it")  # fmt: skip
            then, other = self._stand_in(then, other)
        if type(then) is type(other) and not symbolic(then) and _same(then, other):
            return then
        if then is None or other is None:
            branch = "main" if then is None else "else"
            told = "What is returned" if name == RESULT else repr(name)
            also = f": the {branch} branch must also have a return statement" if name == RESULT else ""
            raise TypeError(
                f"{told} is None at the end of the {branch} branch of 'if {self._text}', but not of the other. "
                f"Both must give it a tensor, for the condition is one{also}"
            )
        try:
            nest.assert_same_structure(then, other, expand_composites=True)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{name!r} differs after the branches of 'if {self._text}': {error}") from None
        pairs = zip(*(nest.flatten(v, expand_composites=True) for v in (then, other)), strict=True)
        merged_parts = [self._part(name, a, b) for a, b in pairs]
        return nest.pack_sequence_as(then, merged_parts, expand_composites=True)

    def _stand_in(self, then: Any, other: Any) -> tuple[Any, Any]:
        """Nobody reads what a function that has not returned would return."""
        made = other if isinstance(then, Undefined) else then
        zeros = nest.map_structure(zeros_of, made, expand_composites=True)
        return (zeros, other) if made is other else (then, zeros)

    def _part(self, name: str, then: Any, other: Any) -> Any:
        if then is other or (type(then) is type(other) and not symbolic(then) and _same(then, other)):
            return then
        for value in (then, other):
            if not _can_be_tensor(value):
                raise TypeError(
                    f"{name!r} is {value!r} after one branch of 'if {self._text}', whose condition is a tensor, and "
                    "something else after the other: only tensors, and what converts to them, may differ"
                )
        return self._pair(then, other, name)

    def _pair(self, then: Any, other: Any, name: str = "") -> Tensor:
        dtype = next(
            (convert_to_tensor(v).dtype.base_dtype for v in (then, other) if not isinstance(v, _NUMBERS)), None
        )
        ends = {}
        for number, value in ((1, then), (0, other)):
            inner = self._inner[number]
            with self.inside(number), self._graph.control_dependencies(list(inner.must_run)):
                ends[number] = array.identity(_as(value, dtype))
        if ends[0].dtype is not ends[1].dtype:
            raise TypeError(
                f"{name!r} has dtype {ends[1].dtype.name} at the end of the main branch of 'if {self._text}', but "
                f"dtype {ends[0].dtype.name} at the end of the else branch: cast one of them"
            )
        self._merged.append(control_flow_cond._merged(ends[0], ends[1]))
        return self._merged[-1]


def zeros_of(value: Any) -> Any:
    """Zeros like a tensor in a branch that is not run, made without it; sizes that are not known are 0."""
    tensor = convert_to_tensor(value)
    dims = [d or 0 for d in tensor._shape or ()]
    return array.zeros(dims, tensor.dtype.base_dtype)


def _as(value: Any, dtype: Any) -> Tensor:
    """A Python number as the tensor in the other branch, if it can be one."""
    if isinstance(value, _NUMBERS) and dtype is not None:
        try:
            return convert_to_tensor(value, dtype)
        except (TypeError, ValueError):
            pass
    return convert_to_tensor(value)


def _same(a: Any, b: Any) -> bool:
    if not isinstance(a, (*_NUMBERS, str, bytes, type(None))):
        return a is b
    return bool(a == b)


def _can_be_tensor(value: Any) -> bool:
    if is_tensor_like(value):
        return True
    try:
        convert_to_tensor(value)
    except (TypeError, ValueError):
        return False
    return True
