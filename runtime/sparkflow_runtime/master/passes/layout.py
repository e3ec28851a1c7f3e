"""Layout: channels last everywhere; no transposes that undo each other, with elementwise ops between them or none;
matrices that a loop multiplies by in the order in which the product reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.master.passes.channels_last import channels_last
from sparkflow_runtime.master.passes.fold import constant_op
from sparkflow_runtime.master.passes.loop_products import lay_out_once
from sparkflow_runtime.master.passes.symbols import words
from sparkflow_runtime.master.passes.view import Op, View, producer

_THROUGH = words(
    "Neg Abs Sign Square Floor Ceil Rint Round Sqrt Rsqrt Exp Expm1 Log Log1p Tanh Sigmoid Sin Cos Reciprocal Erf "
    "Cast Relu Relu6 Elu Selu Softplus Softsign LeakyRelu IsNan IsInf IsFinite LogicalNot"
)  # one input, element by element: what is done to the layout before may as well be done after


def layout(view: View) -> None:
    """Images come with channels last; two transposes become one, or none where they undo each other."""
    channels_last(view)
    users, edges, new = view.consumers(), dict[str, str](), dict[str, Op]()
    kept = view.kept | view.gates
    for op in view.ops.values():
        op.data = [edges.get(e, e) for e in op.data]
        perm = _perm(op, view)
        if perm is None or op.control:
            continue
        inner, between = _transpose_before(op, view, users, kept)
        if inner is not None:
            whole = [_perm(inner, view)[i] for i in perm]  # type: ignore[index]
            if whole == sorted(whole) and (not between or op.name not in kept):
                _take_out(op, inner, between, edges)
                _joins(users, edges[op.name], users.get(op.name, ()))
            elif not between:
                name = f"{op.name}/perm_of_both"
                new[name] = constant_op(name, np.array(whole, np.int32), op)
                op.data = [inner.data[0], name]
                _joins(users, inner.data[0], [op])
        elif perm == sorted(perm):
            edges[op.name] = op.data[0]
            _joins(users, op.data[0], users.get(op.name, ()))
    if new:
        view.ops = {**new, **view.ops}
        view.free = view.free.union(new)
    view.redirect(edges)
    view.prune()
    lay_out_once(view)


def _joins(users: dict[str, list[Op]], edge: str, more: Sequence[Op]) -> None:
    """Who takes an edge from now on, too: what it means must not change any more for one of them alone."""
    users[producer(edge)] = [*users.get(producer(edge), ()), *more]


def _perm(op: Op, view: View) -> list[int] | None:
    """The permutation of a Transpose that is known and may be changed."""
    if op.op != "Transpose" or op.name not in view.free or op.name in view.feeds:
        return None
    value: Any = view.constant(op.data[1])
    return None if value is None else value.tolist()


def _transpose_before(op: Op, view: View, users: dict[str, list[Op]], kept: set[str]) -> tuple[Op | None, list[Op]]:
    """The transpose whose result an op transposes again, and the elementwise ops between, which nobody else uses."""
    between: list[Op] = []
    at = view.ops.get(op.data[0])
    while at is not None and at.name in view.free and at.name not in view.feeds and not at.control:
        if at.op == "Transpose":
            return (at, between[::-1]) if _perm(at, view) is not None else (None, [])
        if at.op not in _THROUGH or len(users.get(at.name, ())) != 1 or at.name in kept:
            return None, []
        between.append(at)
        at = view.ops.get(at.data[0])
    return None, []


def _take_out(op: Op, inner: Op, between: list[Op], edges: dict[str, str]) -> None:
    """x -> transpose -> f -> transpose back is x -> f."""
    if not between:
        edges[op.name] = inner.data[0]
        op.become("Identity", [inner.data[0]])  # if it is fetched
        return
    between[0].data = [inner.data[0]]
    for one in between:
        one.forget_shapes()
    edges[op.name] = between[-1].name
