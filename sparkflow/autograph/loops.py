"""`while` and `for` of converted functions: Python's own until a tensor decides how long, then in the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from sparkflow.autograph.branches import Get, Put, if_stmt, zeros_of
from sparkflow.autograph.items import Items, items_of
from sparkflow.autograph.values import Undefined, symbolic
from sparkflow.framework import nest, shapes
from sparkflow.framework.apply import convert_to_tensor, is_tensor_like
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.program_order import ProgramOrder, ordered
from sparkflow.framework.shapes import TensorShape
from sparkflow.ops import control_flow_cond
from sparkflow.ops.control_flow_context import CondContext
from sparkflow.ops.control_flow_while import while_loop

Options = Callable[[], dict[str, Any]] | None


def while_stmt(
    test: Callable[[], Any], body: Callable[[], None], get: Get, put: Put, names: tuple[str, ...], options: Options
) -> None:
    """`while test(): body()`. get, put: the values of `names`, which go from one iteration to the next."""
    while True:
        going = test()
        if symbolic(going):
            _Staged(names, get, put, options).run(lambda _: test(), lambda _: body(), ())
            return
        if not going:
            return
        body()


def for_stmt(
    values: Any, more: Callable[[], Any] | None, body: Callable[[Any], None], get: Get, put: Put,
    names: tuple[str, ...], options: Options,
) -> None:  # fmt: skip
    """`for item in values: body(item)`, as long as more() is true where it is given."""
    items = items_of(values)
    if items is not None:
        staged = _Staged(names, get, put, options)
        source: Items = items

        def going(state: Any) -> Any:
            return _all(source.more(state), more)

        def once(state: Any) -> None:
            body(source.item(state))

        staged.run(going, once, source)
        return
    for item in values:
        going_on = True if more is None else more()
        if not symbolic(going_on):
            if not going_on:
                return
            body(item)
        else:  # how many items there are is known: each becomes a branch
            if_stmt(going_on, partial(body, item), lambda: None, get, put, names, len(names), "break")


def _all(going: Tensor, more: Callable[[], Any] | None) -> Any:
    if more is None:
        return going
    known = more()
    if not symbolic(known) and known:
        return going
    return control_flow_cond.cond(going, lambda: convert_to_tensor(more()), lambda: convert_to_tensor(False))


class _Staged:
    """A loop in the graph: its names' values as loop variables, those that no tensor can be left as they are."""

    def __init__(self, names: tuple[str, ...], get: Get, put: Put, options: Options):
        self._names, self._get, self._put = names, get, put
        self._options = {} if options is None else options()

    def run(self, going: Callable[[Any], Any], body: Callable[[Any], None], items: Items | tuple[()]) -> None:
        """items: what gives the loop's items has variables of its own, `start` and `next`."""
        start = [] if isinstance(items, tuple) else items.start()
        before = list(self._get())
        shaped = self._invariants(before)
        if any(isinstance(v, Undefined) for v in before):
            before = self._filled(before, body, start)
        carried = [i for i, v in enumerate(before) if _is_carried(v)]
        kept = {i: v for i, v in enumerate(before) if i not in carried}
        inits = [_as_carried(before[i]) for i in carried]

        def put(values: Iterable[Any]) -> None:
            self._put(self._whole(before, carried, values))

        def goes_on(state: list[Any], values: list[Any]) -> Any:
            put(values)
            return convert_to_tensor(going(state))

        def step(state: list[Any], values: list[Any]) -> Any:
            put(values)
            body(state)
            after = list(self._get())
            self._check_kept(kept, after)
            following = [] if isinstance(items, tuple) else items.next(state)
            pairs = [(self._names[i], was, after[i]) for i, was in zip(carried, values)]
            free = [i in shaped for i in carried]
            return following, [_following(*pair, free=f) for pair, f in zip(pairs, free)]

        invariants = None
        if shaped:
            free = nest.map_structure(lambda _: None, [start, inits])
            invariants = [free[0], [shaped.get(i, none) for i, none in zip(carried, free[1])]]
        settings = {k: v for k, v in self._options.items() if k != "shape_invariants" and v is not None}
        if not carried and not start:  # nothing changes but variables and the like
            self._run_bare(goes_on, step, settings)
            return
        _, ends = while_loop(goes_on, step, [start, inits], invariants, return_same_structure=True, **settings)
        before = self._told(before)
        put(ends)

    def _run_bare(self, goes_on: Any, step: Any, settings: dict[str, Any]) -> None:
        """A loop needs a variable: the number of iterations."""
        once = convert_to_tensor(0)
        while_loop(
            lambda _: goes_on([], []),
            lambda n: (step([], []), n + 1)[1],
            [once],
            return_same_structure=True,
            **settings,
        )

    @staticmethod
    def _whole(before: list[Any], carried: list[int], values: Iterable[Any]) -> tuple[Any, ...]:
        whole = list(before)
        for i, value in zip(carried, values):
            whole[i] = value
        return tuple(whole)

    def _told(self, before: list[Any]) -> list[Any]:
        """With what the use of a name that has no value then shall say."""
        why = "it must be defined before the loop, whose condition is a tensor"
        return [Undefined(n, v.why or why) if isinstance(v, Undefined) else v for n, v in zip(self._names, before)]

    def _check_kept(self, kept: dict[int, Any], after: list[Any]) -> None:
        for i, value in kept.items():
            changed = after[i] is not value and not (type(after[i]) is type(value) and after[i] == value)
            if changed and not isinstance(value, Undefined):
                raise TypeError(
                    f"{self._names[i]!r} is {value!r} before the loop, and {after[i]!r} after one iteration. The "
                    "loop's condition is a tensor, so what changes in it must be tensors, or convert to them"
                )

    def _invariants(self, before: list[Any]) -> dict[int, Any]:
        """Of names with a shape that may change: that shape. They are told by their values."""
        found = {}
        for value, shape in self._options.get("shape_invariants") or ():
            for i, own in enumerate(before):
                if own is value:
                    found[i] = nest.map_structure(lambda s: s, shape) if nest.is_nested(shape) else TensorShape(shape)
        return found

    def _filled(self, before: list[Any], body: Callable[[Any], None], start: list[Any]) -> list[Any]:
        """Zeros for the names that have no value before the loop and one after an iteration. What they are like says an
        iteration in a branch that never runs."""
        graph = get_default_graph()
        with graph.name_scope("probe"):
            pivots, pred = control_flow_cond._pivots(convert_to_tensor(False))
            context = CondContext(pred, pivots[1], 1)
            context.Enter()
            try:
                with ordered(graph, None if graph._order is None else ProgramOrder()):
                    # Numbers become tensors in the loop: what they decide is a branch in this iteration, too.
                    self._put([_as_carried(v) if _is_carried(v) else v for v in before])
                    body(start)
                    after = self._get()
            finally:
                context.Exit()
        self._put(tuple(before))
        made = [isinstance(v, Undefined) and _is_carried(a) for v, a in zip(before, after)]
        return [
            nest.map_structure(zeros_of, a, expand_composites=True) if is_made else v
            for v, a, is_made in zip(before, after, made)
        ]


def _is_carried(value: Any) -> bool:
    """Whether it can be a loop variable: a tensor, a number, or a structure of them."""
    leaves = [] if isinstance(value, Undefined) else nest.flatten(value)
    return bool(leaves) and all(_is_leaf(leaf) for leaf in leaves)


def _is_leaf(leaf: Any) -> bool:
    if isinstance(leaf, (bool, int, float, complex)) or is_tensor_like(leaf) or nest.composite_of(leaf) is not None:
        return True
    return hasattr(leaf, "dtype") and hasattr(leaf, "shape") and not hasattr(leaf, "_as_graph_element")


def _as_carried(value: Any) -> Any:
    return nest.map_structure(lambda leaf: convert_to_tensor(leaf), value, expand_composites=True)


def _following(name: str, was: Any, value: Any, free: bool) -> Any:
    """A name's value after an iteration, like the one before it. Raises where its type or shape is another."""
    if isinstance(value, Undefined):
        raise value.told()
    try:
        nest.assert_same_structure(was, value, expand_composites=True)
    except (ValueError, TypeError) as error:
        raise type(error)(
            f"{name!r} does not have the same structure before and after one iteration: {error}"
        ) from None
    old = nest.flatten(was, expand_composites=True)
    new = [_like(name, a, b, free) for a, b in zip(old, nest.flatten(value, expand_composites=True), strict=True)]
    return nest.pack_sequence_as(value, new, expand_composites=True)


def _like(name: str, was: Tensor, value: Any, free: bool) -> Tensor:
    plain = isinstance(value, (bool, int, float))
    try:
        tensor = convert_to_tensor(value, was.dtype.base_dtype) if plain else convert_to_tensor(value)
    except (TypeError, ValueError):
        tensor = convert_to_tensor(value)
    if tensor.dtype.base_dtype is not was.dtype.base_dtype:
        raise TypeError(
            f"{name!r} has dtype {was.dtype.base_dtype.name} before the loop, but dtype "
            f"{tensor.dtype.base_dtype.name} after one iteration: cast it"
        )
    if not free and not _keeps(was._shape, tensor._shape):
        raise ValueError(
            f"{name!r} has shape {shapes.show(was._shape)} before the loop, but shape {shapes.show(tensor._shape)} "
            "after one iteration. Use tf.autograph.experimental.set_loop_options to set shape invariants."
        )
    return tensor


def _keeps(was: Any, now: Any) -> bool:
    if was is None:
        return True
    return now is not None and len(now) == len(was) and all(w is None or w == n for w, n in zip(was, now))
