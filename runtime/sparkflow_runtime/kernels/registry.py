"""The table of kernels: how an op type is computed on a device type.

Three kinds, by what the kernel needs to know:

- `kernel("Exp")(lambda xp, x: xp.exp(x))`: a pure function of arrays; `xp` is numpy or cupy, keyword-only parameters
are the
  node's attributes of the same names. It returns the output, or a sequence of outputs when `multi` is set. One that
  works on the host alone, as all of strings do, is registered by `on_host` instead.
- `bound("Assign", refs=(0,))(factory)`: `factory(node)` runs once when a plan is compiled and returns the function that
  every step calls with the input arrays: for kernels that keep state, draw random numbers, or look at their node.
- `asynchronous("QueueDequeueV2")(factory)`: the function that `factory(node)` returns is called with `(step, done,
*inputs)`,
  must not block, and calls `done(error, outputs)` exactly once, from any thread, `outputs` being a sequence. A `Prompt`
  can also be tried, which costs a step nothing where there is nothing to wait for.

A kernel never changes an input array in place (variables are reached by reference inputs), unless it is called with
`out=x`, x being its input at one of the positions `in_place`: then x is of the result's shape and type, nobody else
has it, and a result may go into its memory. One that may return memory of an input says `aliases`, so that a fetch of a
variable's memory is copied.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from types import FunctionType
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.wire.sessions import is_isolated

if TYPE_CHECKING:
    from sparkflow_runtime.resources.manager import ResourceManager

Function = Callable[..., Any]


class _EveryInput(frozenset[int]):
    """`refs` of an op whose references are counted by an attribute: each input arrives as it is."""

    def __contains__(self, position: object) -> bool:
        return True


EVERY_INPUT = _EveryInput()


@dataclass(frozen=True)
class Prompt:
    """An asynchronous function with a short cut: `attempt(*inputs)` returns the outputs where it need not wait, and
    otherwise None, having done nothing."""

    begin: Function
    attempt: Function

    def __call__(self, step: Any, done: Function, *inputs: Any) -> None:
        self.begin(step, done, *inputs)


@dataclass
class Node:
    """What a factory may know of its node."""

    name: str
    op: str
    attrs: dict[str, Any]
    device: str
    xp: Any
    resources: ResourceManager
    task: str = ""
    inputs: tuple[str, ...] = ()
    session: str = ""

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attrs.get(name, default)

    @property
    def resource_name(self) -> str:
        """The name under which a stateful op shares its resource: shared_name, or the node's own name."""
        return self.attrs.get("shared_name") or self.name

    @property
    def container(self) -> str:
        """The container of that resource. Variables are everybody's by name; all others (queues, readers, tables,
        accumulators) are their session's own unless they have a shared_name, as TensorFlow's are their kernels'."""
        attrs = self.attrs
        named = self.op in VARIABLES or attrs.get("shared_name") or attrs.get("use_node_name_sharing")
        return self.container_of(attrs.get("container", "")) if named else self.resources.own_container(self.session)

    def container_of(self, shared: str) -> str:
        """A container that sessions share, or what stands for it in one that shares nothing."""
        return self.resources.own_container(self.session) if is_isolated(self.session) else shared

    def member(self, index: int, op: str) -> NodeDef | None:
        """Of a node that stands for several, the one that the user wrote, for an error to name."""
        names = self.attrs.get("_fused_from", ())
        return NodeDef(name=names[index], op=op, device=self.device) if index < len(names) else None


@dataclass(frozen=True)
class Kernel:
    """One row of the table; the module docstring gives the contract."""

    op: str
    factory: Callable[[Node], Function]
    multi: bool = False
    aliases: bool = False
    is_async: bool = False
    stateful: bool = False
    refs: frozenset[int] = field(default_factory=frozenset)
    plain: bool = False  # stateful within one step alone: no output is a variable that consumers would have to read
    in_place: tuple[int, ...] = ()  # positions of inputs whose memory an output may take
    handle: bool = False  # gives no value, but the queue, table or reader that is meant

    @property
    def gives_variables(self) -> bool:
        """Whether an output may be a variable itself, which consumers have to read."""
        return self.stateful and not self.plain and (bool(self.refs) or self.op in VARIABLES)


VARIABLES = frozenset(("VariableV2", "Variable"))  # the ops that say which variable is meant
CALLING_OUT = frozenset(("PyFunc", "PyFuncStateless"))  # the ops that run code of the user's
_KERNELS: dict[tuple[str, str], Kernel] = {}
_ANY = "*"
_NO_KERNEL = frozenset(("_Send", "_Recv"))  # ops that plans know themselves
_FOUND: dict[str, tuple[Kernel | None, Kernel | None]] = {}  # what `rows` gave: asked for each node of each pass
_MORE: list[str] = []  # the modules not imported yet


def _add(row: Kernel, devices: Iterable[str]) -> None:
    for device in devices:
        if (row.op, device) in _KERNELS:
            raise InvalidArgumentError(f"Op {row.op!r} has two kernels for device type {device!r}")
        _KERNELS[row.op, device] = row
    _FOUND.pop(row.op, None)


def more_in(module: str) -> None:
    """Have a module with more kernels imported when an op is asked for that none of the present ones is for."""
    _MORE.append(module)


def load_all() -> None:
    """Import what is left of the kernels."""
    for module in list(_MORE):
        import_module(module)  # who comes first imports it, others wait
        if module in _MORE:
            _MORE.remove(module)


def rows(op: str) -> tuple[Kernel | None, Kernel | None]:
    """(that of every device, that of the CPU)."""
    found = _FOUND.get(op)
    if found is None:
        found = _FOUND[op] = _looked_up(op)
    return found


def _looked_up(op: str) -> tuple[Kernel | None, Kernel | None]:
    every, cpu = _KERNELS.get((op, _ANY)), _KERNELS.get((op, "CPU"))
    if every is None and cpu is None and op not in _NO_KERNEL:
        load_all()
        every, cpu = _KERNELS.get((op, _ANY)), _KERNELS.get((op, "CPU"))
    return every, cpu


def kernel(
    *ops: str,
    multi: bool = False,
    aliases: bool = False,
    devices: Iterable[str] = (_ANY,),
    in_place: tuple[int, ...] = (),
) -> Callable[[Function], Function]:
    """Register `fn(xp, *inputs, **attrs)` for these op types; one that works in place takes `out=None` too."""

    def register(fn: Function) -> Function:
        wanted = _keyword_only(fn)

        def factory(node: Node) -> Function:
            attrs = {name: node.attrs[name] for name in wanted if name in node.attrs}
            return partial(fn, node.xp, **attrs)

        for op in ops:
            _add(Kernel(op, factory, multi, aliases, in_place=in_place), devices)
        return fn

    return register


on_host = partial(kernel, devices=("CPU",))


def _keyword_only(fn: Function) -> tuple[str, ...]:
    """As inspect.signature has them, which takes 60 us a function: there are 300."""
    if type(fn) is FunctionType and not hasattr(fn, "__wrapped__"):
        code = fn.__code__
        return code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    return tuple(p.name for p in inspect.signature(fn).parameters.values() if p.kind is p.KEYWORD_ONLY)


def bound(
    *ops: str,
    refs: Iterable[int] = (),
    multi: bool = False,
    aliases: bool = False,
    stateful: bool = True,
    devices: Iterable[str] = (_ANY,),
    plain: bool = False,
    in_place: tuple[int, ...] = (),
    handle: bool = False,
) -> Callable[[Callable[[Node], Function]], Callable[[Node], Function]]:
    """Register `factory(node) -> fn(*inputs)`; inputs whose positions are in `refs` arrive as the variable itself."""
    numbered = refs if isinstance(refs, frozenset) else frozenset(refs)

    def register(factory: Callable[[Node], Function]) -> Callable[[Node], Function]:
        for op in ops:
            _add(Kernel(op, factory, multi, aliases, False, stateful, numbered, plain, in_place, handle), devices)
        return factory

    return register


def asynchronous(
    *ops: str, refs: Iterable[int] = (), devices: Iterable[str] = (_ANY,)
) -> Callable[[Callable[[Node], Function]], Callable[[Node], Function]]:
    """Register `factory(node) -> fn(step, done, *inputs)` for ops that may have to wait."""
    numbered = refs if isinstance(refs, frozenset) else frozenset(refs)

    def register(factory: Callable[[Node], Function]) -> Callable[[Node], Function]:
        for op in ops:
            _add(Kernel(op, factory, True, False, True, True, numbered), devices)
        return factory

    return register


Knowing = Callable[..., "Function | None"]
_KNOWING: dict[str, tuple[tuple[int, ...], Knowing]] = {}


def knowing(positions: tuple[int, ...], *ops: str) -> Callable[[Knowing], Knowing]:
    """Register `factory(node, *values) -> fn(*inputs)` for a pure kernel whose inputs at these positions (-1: the last)
    are constants, as axes and shapes mostly are: what they mean is worked out once. None: the kernel as it is."""

    def register(factory: Knowing) -> Knowing:
        _KNOWING.update((op, (positions, factory)) for op in ops)
        return factory

    return register


def with_constants(row: Kernel, inputs: int, value: Callable[[int], Any]) -> Kernel:
    """The row for a node of so many inputs that uses what is known of them. value: of a position, None where it is no
    constant."""
    if row.op not in _KNOWING:
        return row
    positions, make = _KNOWING[row.op]
    values = [value(p % inputs) for p in positions if -inputs <= p < inputs]
    if len(values) < len(positions) or any(v is None for v in values):
        return row
    return replace(row, factory=lambda node: make(node, *values) or row.factory(node))


_EARLY: dict[str, list[Callable[[], None]]] = {}


def prepares(prepare: Callable[[], None], *ops: str) -> None:
    """Have `prepare` called when a graph with one of these ops becomes known, before a plan with it is compiled."""
    for op in ops:
        _EARLY.setdefault(op, []).append(prepare)


def prepare(ops: Iterable[str]) -> None:
    """A graph with these ops is known: what may be done ahead (machine code) begins in the background."""
    known = set(ops)
    for op in known:
        rows(op)
    for call in dict.fromkeys(call for op in known for call in _EARLY.get(op, ())):
        call()


def find(op: str, device_type: str) -> Kernel:
    row = _KERNELS.get((op, device_type)) or rows(op)[0] or _KERNELS.get((op, device_type))
    if row is None:
        others = sorted(d for o, d in _KERNELS if o == op)
        hint = f"it has one for {others}" if others else "no device type has one"
        raise UnimplementedError(f"Op {op!r} has no kernel for device type {device_type!r}; {hint}")
    return row


def own_row(op: str, device_type: str) -> Kernel | None:
    """The row that an op has for that device type alone."""
    rows(op)
    return _KERNELS.get((op, device_type))


_NO_REFS: frozenset[int] = frozenset()


def ref_positions(op: str) -> frozenset[int]:
    """Input positions at which the op takes a variable itself; empty for an op without kernel."""
    every, cpu = rows(op)
    row = every or cpu
    return _NO_REFS if row is None else row.refs


def gives_handle(op: str) -> bool:
    """Whether who takes what the op gives has to be on its task."""
    return any([row is not None and row.handle for row in rows(op)])


def is_asynchronous(op: str) -> bool:
    every, cpu = rows(op)
    return bool((every and every.is_async) or (cpu and cpu.is_async))


def is_stateful(op: str) -> bool:
    """Whether a kernel of the op keeps something from one step to the next, or looks at its surroundings."""
    return any([row is not None and row.stateful for row in rows(op)])


def keeps_state(op: str) -> bool:
    """As `is_stateful`, without ops whose state lasts for one step (stacks, TensorArrays)."""
    return any([row is not None and row.stateful and not row.plain for row in rows(op)])


def has_kernel(op: str, device_type: str) -> bool:
    return rows(op)[0] is not None or (op, device_type) in _KERNELS


def registered() -> list[str]:
    load_all()
    return sorted({op for op, _ in _KERNELS})
