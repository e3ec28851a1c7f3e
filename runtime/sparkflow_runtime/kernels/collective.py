"""Collectives as ops: the waiting, and who does what, is in resources/collectives and resources/rings."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.compression import codec_of
from sparkflow_runtime.kernels.registry import Node, asynchronous
from sparkflow_runtime.resources.collectives import Collectives
from sparkflow_runtime.resources.groups import Request
from sparkflow_runtime.resources.rings import Broadcast, Gather, Place, Reduce, Ring, Send
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError

_CPU = ("CPU",)
_LOCK = Lock()
Wait = Callable[..., None]


def _collectives(node: Node) -> Collectives:
    with _LOCK:
        if node.resources.collectives is None:
            node.resources.collectives = Collectives(node.task, most=lambda: 1)
        return node.resources.collectives


def _start(node: Node, step: Any, done: Wait, keys: tuple[Any, ...], make: Callable[[Place, Send], Ring]) -> None:
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
    request = Request(node.name, group, size, instance, make, ended, timeout_s, node.session)
    cancel = _collectives(node).start(request)
    token.append(step.on_cancel(cancel, lambda: _collectives(node).describe(request)))
    if over:  # before there was a token to see
        step.off_cancel(token[0])


def _keys(node: Node) -> tuple[int, int, int]:
    return node.attrs["group_size"], node.attrs["group_key"], node.attrs["instance_key"]


def _reduce(node: Node, x: np.ndarray, scatter: bool = False) -> Callable[[Place, Send], Ring]:
    merge, final, codec = _text(node, "merge_op"), _text(node, "final_op"), codec_of(node)
    return lambda place, send: Reduce(place, send, np.asarray(x), merge, final, scatter, codec)


def _text(node: Node, attr: str) -> str:
    value = node.attrs[attr]
    return value.decode() if isinstance(value, bytes) else str(value)


@asynchronous("CollectiveReduce", devices=_CPU)
def _collective_reduce(node: Node) -> Wait:
    return lambda step, done, x: _start(node, step, done, _keys(node), _reduce(node, x))


@asynchronous("CollectiveReduceV2", "CollectiveReduceScatterV2", devices=_CPU)
def _collective_reduce_v2(node: Node) -> Wait:
    scatter = node.op == "CollectiveReduceScatterV2"

    def run(step: Any, done: Wait, x: np.ndarray, size: Any, group: Any, instance: Any, *tokens: Any) -> None:
        _start(node, step, done, (size, group, instance), _reduce(node, x, scatter))

    return run


def _gather(node: Node, x: np.ndarray) -> Callable[[Place, Send], Ring]:
    codec = codec_of(node)
    return lambda place, send: Gather(place, send, np.asarray(x), codec)


@asynchronous("CollectiveGather", devices=_CPU)
def _collective_gather(node: Node) -> Wait:
    return lambda step, done, x: _start(node, step, done, _keys(node), _gather(node, x))


@asynchronous("CollectiveGatherV2", devices=_CPU)
def _collective_gather_v2(node: Node) -> Wait:
    def run(step: Any, done: Wait, x: np.ndarray, size: Any, group: Any, instance: Any, *tokens: Any) -> None:
        _start(node, step, done, (size, group, instance), _gather(node, x))

    return run


@asynchronous("CollectiveBcastSend", devices=_CPU)
def _collective_bcast_send(node: Node) -> Wait:
    codec, wanted = codec_of(node), node.attrs["shape"].dims

    def run(step: Any, done: Wait, x: np.ndarray) -> None:
        x = np.asarray(x)
        if wanted is not None and x.shape != tuple(wanted):
            raise InvalidArgumentError(f"CollectiveBcastSend {node.name!r}: shape {x.shape}, expected {tuple(wanted)}")
        _start(node, step, done, _keys(node), lambda place, send: Broadcast(place, send, x, codec=codec))

    return run


@asynchronous("CollectiveBcastRecv", devices=_CPU)
def _collective_bcast_recv(node: Node) -> Wait:
    dims, dtype, codec = node.attrs["shape"].dims, node.attrs["T"].np, codec_of(node)
    if dims is None or None in dims:
        raise InvalidArgumentError(f"CollectiveBcastRecv {node.name!r}: give the whole shape, got {dims}")
    return lambda step, done: _start(
        node, step, done, _keys(node), lambda place, send: Broadcast(place, send, None, dims, dtype, codec)
    )
