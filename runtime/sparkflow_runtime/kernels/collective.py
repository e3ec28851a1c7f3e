"""Collectives as ops: the waiting, and who does what, is in resources/collectives and resources/rings."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compression import codec_of
from sparkflow_runtime.kernels.registry import Node, asynchronous
from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.resources.groups import Request
from sparkflow_runtime.resources.rings import Broadcast, Gather, Place, Ring, Send
from sparkflow_runtime.resources.small_reductions import reduction
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

_CPU = ("CPU",)
_LOCK = Lock()
Wait = Callable[..., None]


def _collectives(node: Node) -> Collectives:
    with _LOCK:
        if node.resources.collectives is None:
            node.resources.collectives = Collectives(node.task, most=lambda: 1)
        return node.resources.collectives


def _start(
    node: Node, step: Any, done: Wait, keys: tuple[Any, ...], make: Callable[[Place, Send], Ring], nbytes: int
) -> None:
    size, group, instance = (int(k) for k in keys)
    if size < 1:
        raise InvalidArgumentError(f"{node.op} {node.name!r}: group_size {size}, expected at least 1")
    token: list[int] = []
    over: list[bool] = []

    def ended(error: OpError | None, outputs: Any = ()) -> None:
        over.append(True)
        if token:
            step.off_cancel(token[0])
        done(error, outputs)

    timeout_s = float(node.attr("timeout_seconds", 0.0))
    request = Request(node.name, group, size, instance, make, ended, timeout_s, node.session, nbytes)
    own = _collectives(node)
    if step.plan.collectives > 1:
        if not step.collectives:
            step.on_cancel(partial(_left, weakref.ref(step)))
        step.collectives.append((own, group, node.session))
    cancel = own.start(request)
    step.begun += 1  # now: Ctrl-C may come before anything has begun
    token.append(step.on_cancel(cancel, lambda: own.describe(request)))
    if over:  # before there was a token to see
        step.off_cancel(token[0])


def _left(failed: weakref.ref[Any], error: OpError) -> None:
    """A step has failed after some of its collectives had begun: the others may wait for the rest, and what its task
    does next is not that. Where none had, they wait for its next step, and where all had, for nothing."""
    step = failed()
    if step is not None and step.begun < step.plan.collectives:
        for own, group, session in dict.fromkeys(step.collectives):
            own.leave(group, session, error)


def _keys(node: Node) -> tuple[int, int, int]:
    return node.attrs["group_size"], node.attrs["group_key"], node.attrs["instance_key"]


def _reducing(node: Node, scatter: bool = False) -> Callable[..., None]:
    """start(step, done, keys, x)"""
    merge, final, codec = _text(node, "merge_op"), _text(node, "final_op"), codec_of(node)

    def start(step: Any, done: Wait, keys: tuple[Any, ...], x: Any) -> None:
        x = np.asarray(x)
        make = partial(reduction, x=x, merge_op=merge, final_op=final, scatter=scatter, codec=codec)
        _start(node, step, done, keys, make, x.nbytes)

    return start


def _text(node: Node, attr: str) -> str:
    value = node.attrs[attr]
    return value.decode() if isinstance(value, bytes) else str(value)


@asynchronous("CollectiveReduce", devices=_CPU)
def _collective_reduce(node: Node) -> Wait:
    start, keys = _reducing(node), _keys(node)
    return lambda step, done, x: start(step, done, keys, x)


@asynchronous("CollectiveReduceV2", "CollectiveReduceScatterV2", devices=_CPU)
def _collective_reduce_v2(node: Node) -> Wait:
    start = _reducing(node, node.op == "CollectiveReduceScatterV2")

    def run(step: Any, done: Wait, x: np.ndarray, size: Any, group: Any, instance: Any, *tokens: Any) -> None:
        start(step, done, (size, group, instance), x)

    return run


def _gathering(node: Node) -> Callable[..., None]:
    """start(step, done, keys, x)"""
    codec = codec_of(node)

    def start(step: Any, done: Wait, keys: tuple[Any, ...], x: Any) -> None:
        x = np.asarray(x)
        _start(node, step, done, keys, partial(Gather, x=x, codec=codec), x.nbytes)

    return start


@asynchronous("CollectiveGather", devices=_CPU)
def _collective_gather(node: Node) -> Wait:
    start, keys = _gathering(node), _keys(node)
    return lambda step, done, x: start(step, done, keys, x)


@asynchronous("CollectiveGatherV2", devices=_CPU)
def _collective_gather_v2(node: Node) -> Wait:
    start = _gathering(node)

    def run(step: Any, done: Wait, x: np.ndarray, size: Any, group: Any, instance: Any, *tokens: Any) -> None:
        start(step, done, (size, group, instance), x)

    return run


@asynchronous("CollectiveBcastSend", devices=_CPU)
def _collective_bcast_send(node: Node) -> Wait:
    codec, wanted, keys = codec_of(node), node.attrs["shape"].dims, _keys(node)

    def run(step: Any, done: Wait, x: np.ndarray) -> None:
        x = np.asarray(x)
        if wanted is not None and x.shape != tuple(wanted):
            raise InvalidArgumentError(f"CollectiveBcastSend {node.name!r}: shape {x.shape}, expected {tuple(wanted)}")
        _start(node, step, done, keys, partial(Broadcast, x=x, codec=codec), x.nbytes)

    return run


@asynchronous("CollectiveBcastRecv", devices=_CPU)
def _collective_bcast_recv(node: Node) -> Wait:
    dims, dtype, codec, keys = node.attrs["shape"].dims, node.attrs["T"].np, codec_of(node), _keys(node)
    if dims is None or None in dims:
        raise InvalidArgumentError(f"CollectiveBcastRecv {node.name!r}: give the whole shape, got {dims}")
    make = partial(Broadcast, x=None, shape=dims, dtype=dtype, codec=codec)
    return lambda step, done: _start(node, step, done, keys, make, 0)
