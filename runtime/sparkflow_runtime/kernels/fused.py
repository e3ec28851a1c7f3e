"""Fused nodes: the nodes one stands for run in one call.

The body runs node by node until the machine that runs it block by block (`fused_machine`) is there and takes the
arrays at hand; both give the same bits, because both call numpy's own inner loops in the same order. A node that fails
is named: its NodeDef is left on the error as `failed_node`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import fused_machine, nn_loops, norm_loops, product_sums
from sparkflow_runtime.kernels.fused_machine import Machine, Member
from sparkflow_runtime.kernels.fused_steps import PARAMETERS
from sparkflow_runtime.kernels.parallel import runs, share
from sparkflow_runtime.kernels.registry import Function, Node, bound, find
from sparkflow_runtime.wire.attrs import decode, kernel_attrs
from sparkflow_runtime.wire.edges import data_inputs
from sparkflow_runtime.wire.protos import NodeDef

_FILE = "<sparkflow fused node>"
_LARGE, _BLOCK = 1 << 18, 1 << 15  # elements: from where threads pay, and what one takes at a time
_ONE_PASS = 1 << 13  # from where it pays to add a bias and take the activation in one pass
MOST_INPUTS = 64  # of a node


class Body:
    """The nodes of a fused node, in order. sources: of each, (True, i) its i-th member or (False, i) its i-th input.

    What only running them one by one needs is made when that is asked for: most bodies never are."""

    def __init__(self, node: Node):
        self._node = node
        self.nodes = [NodeDef.FromString(_raw(text)) for text in node.attrs["_nodes"]]
        member = {n.name: i for i, n in enumerate(self.nodes)}
        given = {e: i for i, e in enumerate(node.attrs["_inputs"])}
        self.sources: list[list[tuple[bool, int]]] = [
            [(e in member, member.get(e, given.get(e, -1))) for e in data_inputs(n)] for n in self.nodes
        ]
        self.outputs: list[int] = [member[name] for name in node.attrs["_outputs"]]

    @property
    def bias(self) -> int:
        """Of a product with bias: which input that is."""
        return next(i for inside, i in self.sources[1] if not inside)

    @property
    def activation(self) -> str | None:
        """Of a product with bias."""
        return self.nodes[2].op if len(self.nodes) > 2 else None

    @cached_property
    def attrs(self) -> list[dict[str, Any]]:
        return [kernel_attrs(n) for n in self.nodes]

    @cached_property
    def functions(self) -> list[Function]:
        return [_function(n, a, self._node) for n, a in zip(self.nodes, self.attrs)]

    @cached_property
    def _run(self) -> Callable[[Sequence[Any]], list[Any]]:
        """Straight-line code, one line a node: what the nodes cost by themselves, and nothing more."""
        lines = ["def run(x):"]
        for i, sources in enumerate(self.sources):
            args = ", ".join(f"t{k}" if inside else f"x[{k}]" for inside, k in sources)
            lines.append(f"    t{i} = k{i}({args})")
        lines.append(f"    return [{', '.join(f't{i}' for i in self.outputs)}]")
        names: dict[str, Any] = {f"k{i}": function for i, function in enumerate(self.functions)}
        exec(compile("\n".join(lines), _FILE, "exec"), names)  # our own text: indices and k/t/x names only
        return names["run"]

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Node by node."""
        try:
            return self._run(inputs)
        except Exception as error:
            at = error.__traceback__
            while at is not None and at.tb_frame.f_code is not self._run.__code__:
                at = at.tb_next
            if at is not None:
                error.failed_node = self.nodes[at.tb_lineno - 2]  # type: ignore[attr-defined]
            raise


def _gpu_machine(xp: Any, members: Sequence[Member], outputs: Sequence[int]) -> Any:
    return import_module("sparkflow_runtime.kernels.fused_gpu").GpuMachine(xp, members, outputs)


def _raw(text: str | bytes) -> bytes:
    """Attributes that happen to be UTF-8 are decoded as text."""
    return text.encode() if isinstance(text, str) else text


def _function(proto: NodeDef, attrs: dict[str, Any], node: Node) -> Function:
    row = find(proto.op, "GPU" if "GPU" in node.device else "CPU")
    inputs = tuple(data_inputs(proto))
    return row.factory(Node(proto.name, proto.op, attrs, node.device, node.xp, node.resources, node.task, inputs))


def _parameters(node: NodeDef) -> dict[str, Any]:
    return {name: decode(node.attr[name]) for name in PARAMETERS if name in node.attr}


@bound("_Fused", multi=True, stateful=False, in_place=tuple(range(MOST_INPUTS)))
def _fused(node: Node) -> Callable[..., Any]:
    body = Body(node)
    members = [Member.of(n.op, sources, _parameters(n)) for n, sources in zip(body.nodes, body.sources)]
    if node.xp is not np:
        on_gpu = _gpu_machine(node.xp, members, body.outputs)
        return lambda *inputs: on_gpu.run(inputs) or body.run(inputs)
    machine = Machine(members, body.outputs, len(node.inputs))
    fused_machine.prepare()

    def run(*inputs: Any, out: Any = None) -> Any:
        found = machine.run(inputs, out)
        return body.run(inputs) if found is None else found

    return run


class Ending:
    """Adds a bias and takes the activation in a product's own memory."""

    def __init__(self, activation: str | None, xp: Any):
        self._xp, self._activate = xp, _IN_PLACE[activation](xp) if activation else None
        members = [Member("AddV2", ((False, 0), (False, 1)))]
        if activation:
            members.append(Member(activation, ((True, 0),)))
        self._on_gpu = _gpu_machine(xp, members, [len(members) - 1]) if xp is not np else None
        self._ends = nn_loops.limits(activation, np.float32) if activation != "Tanh" else None
        norm_loops.prepare_shifts()

    @staticmethod
    def fits(bias: Any, columns: int, dtype: Any) -> bool:
        """Whether it is a bias for each column."""
        return bias.shape == (columns,) and bias.dtype == dtype

    def __call__(self, out: Any, bias: Any) -> bool:
        """False, and nothing done, where the bias does not fit."""
        if not self.fits(bias, out.shape[-1], out.dtype):
            return False
        if self._on_gpu is not None and self._on_gpu.run([out, bias], out):
            return True
        if self._xp is np and out.size >= _ONE_PASS and out.flags.c_contiguous:
            rows = out.reshape(-1, out.shape[-1])
            if self._ends is not None and norm_loops.takes(rows, bias):
                norm_loops.shifted(rows, bias, rows, self._ends)
                return True
        if self._xp is np and out.size >= _LARGE and out.flags.c_contiguous:
            rows = out.reshape(-1, out.shape[-1])
            share(partial(self._in_blocks, rows, bias), runs(len(rows), _BLOCK // rows.shape[1] + 1))
        else:
            self._finish(out, bias)
        return True

    def _in_blocks(self, rows: Any, bias: Any, mine: Sequence[tuple[int, int]]) -> None:
        for first, count in mine:
            self._finish(rows[first : first + count], bias)

    def _finish(self, rows: Any, bias: Any) -> None:
        self._xp.add(rows, bias, out=rows)
        if self._activate is not None:
            self._activate(rows)


@bound("_FusedMatMul", "_FusedConv2D", "_FusedConv3D", stateful=False)
def _fused_product(node: Node) -> Callable[..., Any]:
    """The bias is added and the activation taken in the product's own memory."""
    body = Body(node)
    product, bias_at = body.functions[0], body.bias
    a, b = (i for _, i in body.sources[0])
    activation, ending = body.activation, Ending(body.activation, node.xp)
    with_bias = getattr(product, "with_bias", None) if activation in (None, "Relu") else None

    def run(*inputs: Any) -> Any:
        try:
            if with_bias is not None:
                whole = with_bias(inputs[a], inputs[b], inputs[bias_at], activation == "Relu")
                if whole is not None:
                    return whole
            out = product(inputs[a], inputs[b])
        except Exception as error:
            error.failed_node = body.nodes[0]  # type: ignore[attr-defined]
            raise
        return out if ending(out, inputs[bias_at]) else body.run(inputs)[0]

    return run


@bound("_FusedSum", stateful=False)
def _fused_sum(node: Node) -> Callable[..., Any]:
    """Products of one kind, and the AddN of them."""
    body, xp = Body(node), node.xp
    product_sums.prepare()
    pairs = [[i for _, i in body.sources[member]] for _, member in body.sources[-1]]
    turned = [bool(body.attrs[0].get(name)) for name in ("transpose_a", "transpose_b")]

    def run(*inputs: Any) -> Any:
        if xp is np:
            a, b = ([inputs[i].T if turn else inputs[i] for i in side] for turn, side in zip(turned, zip(*pairs)))
            found = product_sums.sum_of_products(a, b)
            if found is not None:
                return found
        return body.run(inputs)[0]

    return run


@bound("_FusedBatchNorm", stateful=False, in_place=(0,))
def _fused_batch_norm(node: Node) -> Callable[..., Any]:
    """Batch normalisation by given statistics, of which only the normalised x is wanted, and perhaps an activation."""
    body, xp = Body(node), node.xp
    epsilon = np.float32(body.attrs[0].get("epsilon", 1e-4))
    ends = nn_loops.limits(body.nodes[1].op if len(body.nodes) > 1 else None, np.float32)
    norm_loops.normalise.prepare()
    norm_loops.normalise_own.prepare()

    places = [i for _, i in body.sources[0]]  # one constant may be several of them

    def one_by_one(arrays: Sequence[Any]) -> Any:
        at = 0
        try:
            made = body.functions[0](*arrays)[0]
            for at in range(1, len(body.functions)):
                made = body.functions[at](made)
        except Exception as error:
            error.failed_node = body.nodes[at]  # type: ignore[attr-defined]
            raise
        return made

    def run(*inputs: Any, out: Any = None) -> Any:
        x, *vectors = arrays = [inputs[i] for i in places]
        fits = xp is np and x.ndim in (4, 5) and x.flags.c_contiguous and norm_loops.takes(x, *vectors)
        if not fits or any(v.shape != x.shape[-1:] for v in vectors):
            return one_by_one(arrays)
        scale, offset, mean, variance = vectors
        rows = x.reshape(-1, x.shape[-1])
        made = np.empty_like(x) if out is None else out
        into = rows if made is x else made.reshape(rows.shape)
        norm_loops.normalised(rows, mean, scale / np.sqrt(variance + epsilon), offset, into, ends)
        return made

    return run


def _relu(xp: Any) -> Function:
    return lambda x: xp.maximum(x, x.dtype.type(0), out=x)


def _relu6(xp: Any) -> Function:
    def run(x: Any) -> Any:
        xp.maximum(x, x.dtype.type(0), out=x)
        return xp.minimum(x, x.dtype.type(6), out=x)

    return run


_IN_PLACE: dict[str, Callable[[Any], Function]] = {
    "Relu": _relu,
    "Relu6": _relu6,
    "Tanh": lambda xp: lambda x: xp.tanh(x, out=x),
}
