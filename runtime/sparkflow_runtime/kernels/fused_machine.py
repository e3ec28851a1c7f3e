"""Programs for the interpreter in `fused_native`, made from the members of a fused node.

A program depends on the inputs' types and on which of them fill the result's shape; it is made at the first call that
has them and kept, a few per node. Whatever the interpreter does not take (another memory layout, sizes that do not
match, a type without a loop) gives None, and the caller runs node by node.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels import crew_layout, machine_code
from sparkflow_runtime.kernels import fused_layout as layout
from sparkflow_runtime.kernels.compiled import Native
from sparkflow_runtime.kernels.fused_steps import PARAMETERS, Operand, Step, Tracer, Unsupported, trace
from sparkflow_runtime.kernels.parallel import crew_for, scratch_at

_log = logging.getLogger(__name__)
_sizes = attrgetter("size", "ndim")
_MAX_PROGRAMS = 8  # a node
_MAX_REFUSED = 32  # a node whose inputs are never taken is not asked for ever
_ARRAY = id(np.ndarray)
_SHARED = 1 << 15  # elements from which threads may pay
_PER_STEP = 4  # multiplications, as `crew_for` counts them, that an element's step is worth
_FEW, _TOGETHER = 4, 1 << 14  # outputs, and bytes of all of them, that are rows of one array: half the time to make
_PART, _MOST_PARTS = 1 << 14, 16  # elements of a thread's part: whole blocks
_ARGS, _ROOM = crew_layout.ARGS // 8, 7  # where the interpreter's arguments begin, and which one is its room


class Member(NamedTuple):
    """One op of a program. sources: (True, i) the result of the i-th member, (False, i) the i-th input. parameters: the
    attributes that its recipe may look at."""

    op: str
    sources: tuple[tuple[bool, int], ...]
    parameters: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of(cls, op: str, sources: Iterable[tuple[bool, int]], attrs: Mapping[str, Any]) -> Member:
        return cls(op, tuple(sources), tuple((name, attrs[name]) for name in PARAMETERS if name in attrs))


@dataclass
class Program:
    """arguments: what the interpreter is called with, beside the arrays. leader: the input whose shape is the
    result's. room: bytes of memory it needs. alike: the type of the outputs, where they are several of one type. kept:
    arrays whose addresses stand in the arguments. takers: of each input that fills that shape, the outputs that its
    memory may become: no step reads the input once they are written."""

    arguments: tuple[int, ...]
    leader: int
    room: int
    outputs: list[np.dtype[Any]]
    alike: np.dtype[Any] | None
    kept: list[np.ndarray]
    takers: dict[int, list[int]]


class Machine:
    def __init__(self, members: Sequence[Member], outputs: Sequence[int], inputs: int):
        self._structure, self._inputs = (tuple(members), tuple(outputs)), inputs
        self._programs: dict[Any, Program | None] = {}
        self._last: Program | None = None
        self._refused = 0  # calls in a row
        self._conditions = _conditions(members)

    def run(self, inputs: tuple[Any, ...], free: Any = None) -> list[Any] | None:
        """The outputs, or None where these inputs are not for the machine. free: one of the inputs, whose memory an
        output may take."""
        code = interpreter.code
        if code is None or self._refused > _MAX_REFUSED:
            return None
        if self._conditions:
            inputs = self._with_columns(inputs)
        program = (self._last or self._program_for(inputs)) if inputs else None
        for _ in range(2):
            if program is None:
                break
            shape = inputs[program.leader].shape
            out = _outputs(program, shape, inputs, free)
            size = out[0].size
            if _run(code, program, inputs, out, size) if size < _SHARED else _share(code, program, inputs, out, size):
                self._refused = 0
                return [value[()] for value in out] if shape == () else list(out)
            other = self._program_for(inputs)
            program = other if other is not program else None
        self._refused += 1
        return None

    def _with_columns(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The inputs, with conditions that choose whole rows as columns, as numpy and the interpreter take them;
        nothing where one is neither that nor of the result's shape."""
        shape = max(inputs, key=_sizes).shape
        changed = list(inputs)
        for i in self._conditions:
            of = inputs[i].shape
            if of == shape or not of:
                continue
            if len(shape) < 2 or of != shape[:1]:
                return ()
            changed[i] = inputs[i].reshape(-1, *(1,) * (len(shape) - 1))
        return tuple(changed)

    def _program_for(self, inputs: tuple[Any, ...]) -> Program | None:
        if not all(isinstance(x, (np.ndarray, np.generic)) for x in inputs):
            return None
        try:
            shape = np.broadcast_shapes(*(x.shape for x in inputs))
        except ValueError:  # one of the nodes will say so
            return None
        # an unpickled dtype is not numpy's own
        key = tuple((x.dtype, id(x.dtype), x.shape == shape, i in self._conditions) for i, x in enumerate(inputs))
        if key not in self._programs:
            if len(self._programs) >= _MAX_PROGRAMS:
                return None
            self._programs[key] = _compile(*self._structure, key)
        self._last = self._programs[key]
        return self._last


def _conditions(members: Sequence[Member]) -> frozenset[int]:
    """The inputs that are nothing but what Selects choose by: those choose whole rows where they are vectors."""
    first = {m.sources[0] for m in members if m.op == "Select"}
    rest = {s for m in members for s in (m.sources[1:] if m.op == "Select" else m.sources)}
    return frozenset(i for inside, i in first - rest if not inside)


@lru_cache(maxsize=256)
def _compile(
    members: tuple[Member, ...], outputs: tuple[int, ...], key: tuple[tuple[np.dtype[Any], int, bool, bool], ...]
) -> Program | None:
    """One program for all nodes that are made alike, as the layers and unrolled steps of a model are."""
    tracer = Tracer()
    given = [Operand("input", i, dtype, full, by_rows and not full) for i, (dtype, _, full, by_rows) in enumerate(key)]
    values: list[Operand] = []
    try:
        for member in members:
            args = [values[i] if inside else given[i] for inside, i in member.sources]
            values.append(trace(tracer, member.op, dict(member.parameters), args))
        results = [values[i] for i in outputs]
        if not any(full for _, _, full, _ in key) or not all(r.kind == "step" and r.full for r in results):
            return None
        return _Writer(tracer, given, results).program(next(i for i, (_, _, full, _) in enumerate(key) if full))
    except (Unsupported, KeyError):
        return None


def _run(code: Any, program: Program, inputs: Any, out: Any, end: int) -> bool:
    """Whether the inputs are taken; then the first `end` elements are there."""
    room = scratch_at("fused", program.room)
    return code(id(inputs), id(out), *program.arguments, room, 0, end) == layout.TAKEN


def _share(code: Any, program: Program, inputs: Any, out: Any, size: int) -> bool:
    """The same of large arrays: the first block shows whether they are taken, and threads share the others."""
    mates = crew_for(size * program.arguments[2] * _PER_STEP)
    if mates is None:
        return _run(code, program, inputs, out, size)
    if not _run(code, program, inputs, out, layout.BLOCK):
        return False
    each = (program.room + 63) // 64 * 64
    table = _parts(interpreter.address, program.arguments, each, size).copy()
    table[:, _ARGS], table[:, _ARGS + 1] = id(inputs), id(out)
    table[:, _ARGS + _ROOM] += scratch_at("fused parts", each * len(table))
    mates.run(table)
    return True


@lru_cache(maxsize=256)
def _parts(address: int, arguments: tuple[int, ...], room: int, size: int) -> np.ndarray:
    """What a crew is told: all but where the arrays and the memory of `room` bytes a part lie."""
    each = max(_PART, -(-size // (_MOST_PARTS * _PART)) * _PART)
    starts = np.arange(0, size, each)
    table = np.zeros((len(starts), crew_layout.BLOCK_BYTES // 8), np.int64)
    table[:, crew_layout.KIND // 8], table[:, crew_layout.FUNCTION // 8] = crew_layout.ENTRY, address
    table[:, _ARGS + 2 : _ARGS + _ROOM] = arguments
    table[:, _ARGS + _ROOM] = np.arange(len(starts)) * room
    table[:, _ARGS + _ROOM + 1], table[:, _ARGS + _ROOM + 2] = starts, starts + each
    table[0, _ARGS + _ROOM + 1] = layout.BLOCK
    return table


def _outputs(program: Program, shape: tuple[int, ...], inputs: tuple[Any, ...], free: Any) -> tuple[np.ndarray, ...]:
    """Memory for them: their own, and that of the input that is free."""
    taker = -1
    if free is not None and free.shape == shape:
        of = next(i for i, x in enumerate(inputs) if x is free)
        taker = next((k for k in program.takers.get(of, ()) if program.outputs[k] == free.dtype), -1)
    if taker < 0:
        alike, count = program.alike, len(program.outputs)
        if alike is not None and shape and count * alike.itemsize * math.prod(shape) <= _TOGETHER:
            return tuple(np.empty((count, *shape), alike))
        return tuple([np.empty(shape, dtype) for dtype in program.outputs])
    return tuple([free if k == taker else np.empty(shape, dtype) for k, dtype in enumerate(program.outputs)])


class _Writer:
    """Gives every value a place: an output's own memory, or a register that is free again after its last use."""

    def __init__(self, tracer: Tracer, inputs: Sequence[Operand], results: Sequence[Operand]):
        self._tracer, self._inputs, self._results = tracer, inputs, results
        self._output = {r.index: i for i, r in enumerate(results)}
        if len(self._output) != len(results):
            raise Unsupported("one value as two outputs")

    def program(self, leader: int) -> Program:
        self._rows: list[list[int]] = []
        inputs = [self._row(layout.INPUT, i, o.dtype, o.full) for i, o in enumerate(self._inputs)]
        consts = [self._row(layout.CONST, c.ctypes.data, c.dtype) for c in self._tracer.consts]
        places, registers = self._places()
        at = {"input": inputs, "const": consts, "step": places}
        steps = [self._step(s, [at[a.kind][a.index] for a in s.args], places[s.out.index]) for s in self._tracer.steps]
        types = [r.dtype for r in self._results]
        tables = np.array([number for row in (*self._rows, *steps) for number in row], np.int64)
        return Program(
            (tables.ctypes.data, len(self._rows), len(steps), registers, _ARRAY),
            leader,
            layout.room_bytes(len(self._rows), registers),
            types,
            types[0] if len(types) >= _FEW and len(set(types)) == 1 else None,
            [tables, *self._tracer.consts],
            self._takers(),
        )

    def _takers(self) -> dict[int, list[int]]:
        last = {a.index: i for i, s in enumerate(self._tracer.steps) for a in s.args if a.kind == "input"}
        return {
            i: [k for k, result in enumerate(self._results) if result.index >= last.get(i, -1)]
            for i, given in enumerate(self._inputs)
            if given.full
        }

    def _row(self, kind: int, value: int, dtype: np.dtype[Any], full: bool = False) -> int:
        self._rows.append([kind, dtype.itemsize, value, id(dtype), id(dtype.type), full])
        return len(self._rows) - 1

    def _places(self) -> tuple[list[int], int]:
        """The row of every step's result, and how many registers there are."""
        last = {a.index: i for i, s in enumerate(self._tracer.steps) for a in s.args if a.kind == "step"}
        free: list[int] = []
        held: dict[int, int] = {}
        places, registers = [], 0
        for i, step in enumerate(self._tracer.steps):
            if i in self._output:
                places.append(self._row(layout.OUTPUT, self._output[i], step.out.dtype))
            else:
                if not free:
                    free.append(registers)
                    registers += 1
                held[i] = free.pop()
                places.append(self._row(layout.REGISTER, held[i], step.out.dtype))
            for a in {a.index for a in step.args if a.kind == "step" and last[a.index] == i}:
                if a in held:
                    free.append(held[a])
        return places, registers

    def _step(self, step: Step, args: list[int], result: int) -> list[int]:
        special = {"select": layout.SELECT, "widen": layout.WIDEN, "copy": layout.COPY}
        if step.ufunc in special:
            loop, data = special[step.ufunc], 0
        else:
            name, types = step.ufunc.split(":")
            loop, data = layout.loop_of(getattr(np, name), types)
        return [loop, data, len(args), *[*args, 0, 0][:3], result]


# ---------------------------------------------------------------------- made ready in the background


class _Interpreter(Native):
    """The machine code, from the moment it is there and has passed its check."""

    def __init__(self) -> None:
        name, where = "The interpreter of fused nodes", f"{__name__}:interpreter"
        super().__init__(name, where, "sparkflow_runtime.kernels.fused_native", run=10)
        self.code: Any = None
        self.address = 0
        self._done = Event()

    def _use(self, codes: Sequence[bytes]) -> None:
        try:
            super()._use(codes)
            self.address = machine_code.address(self.functions[0]) if self.functions else 0
            self.code = self.functions[0] if self.functions else None
        finally:
            self._done.set()

    def _works(self, functions: list[Callable[..., int]]) -> bool:
        right = _gives_the_same_bits(functions[0])
        if not right:
            _log.warning("Fused nodes run node by node: this numpy's loops are not laid out as expected")
        return right

    def wait(self, timeout_s: float) -> bool:
        """Whether it is in use, after waiting for it."""
        self.prepare()
        self._done.wait(timeout_s)
        return self.code is not None


interpreter = _Interpreter()
prepare = interpreter.prepare
wait = interpreter.wait


def _gives_the_same_bits(code: Any) -> bool:
    """Whether a program over an array, a row and a scalar gives what the ufuncs give."""
    x = np.linspace(-3, 3, 3000, dtype=np.float32).reshape(300, 10)
    row, one = np.arange(10, dtype=np.float32), np.float32(0.5)
    members = [Member("Mul", ((False, 0), (False, 1))), Member("Tanh", ((True, 0),))]
    members += [Member("AddV2", ((True, 1), (False, 2)))]
    machine = Machine(members, [2, 1], 3)
    program = machine._program_for((x, row, one))
    if program is None or not x.flags.c_contiguous:
        return False
    inputs, out = (x, row, one), (np.empty_like(x), np.empty_like(x))
    room = np.empty(program.room, np.uint8)
    for begin in (layout.BLOCK, 0):  # a part of it may come first
        end = x.size if begin else layout.BLOCK
        if code(id(inputs), id(out), *program.arguments, room.ctypes.data, begin, end) != layout.TAKEN:
            return False
    tanh = np.tanh(x * row)
    return out[0].tobytes() == (tanh + one).tobytes() and out[1].tobytes() == tanh.tobytes()
