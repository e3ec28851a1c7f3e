"""Random programs of branches, loops and arrays, as data: built with any module of TensorFlow 1's names, or evaluated.

A program works on vectors of two float64. `evaluate` runs it on Jets, which carry exact derivatives of any order, so
that gradients of gradients have an oracle that knows nothing of graphs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

SIZE = 2


class Jet:
    """A value with its derivatives along directions e0, e1, ... of which each counts once (e*e = 0).

    parts: [2 ** directions, ...]; the part at bit set s belongs to the product of the directions in s.
    """

    def __init__(self, parts: np.ndarray):
        self.parts = parts

    @staticmethod
    def of(value: Any, *directions: Any) -> Jet:
        value = np.asarray(value, float)
        parts = np.zeros((1 << len(directions), *value.shape))
        parts[0] = value
        for i, direction in enumerate(directions):
            parts[1 << i] = direction
        return Jet(parts)

    @property
    def value(self) -> np.ndarray:
        return self.parts[0]

    def linear(self, function: Callable[[np.ndarray], Any]) -> Jet:
        return Jet(np.stack([np.asarray(function(p), float) for p in self.parts]))

    def __add__(self, other: Any) -> Jet:
        if isinstance(other, Jet):
            return Jet(np.stack([a + b for a, b in zip(self.parts, other.parts, strict=True)]))
        parts = self.parts.copy()
        parts[0] += other
        return Jet(parts)

    def __mul__(self, other: Any) -> Jet:
        if not isinstance(other, Jet):
            return Jet(self.parts * other)
        out = [np.zeros(np.broadcast_shapes(self.value.shape, other.value.shape)) for _ in self.parts]
        for a in range(len(out)):
            for b in range(len(out)):
                if not a & b:
                    out[a | b] = out[a | b] + self.parts[a] * other.parts[b]
        return Jet(np.stack(out))

    def sin(self) -> Jet:
        turns = len(self.parts).bit_length()
        derivatives = [np.sin(self.value + k * math.pi / 2) for k in range(turns)]
        small = Jet(self.parts.copy())
        small.parts[0] = 0.0
        power, out = Jet.of(np.ones_like(self.value), *[0.0] * (turns - 1)), Jet(np.zeros_like(self.parts))
        for k, derivative in enumerate(derivatives):
            out = out + power * (derivative / math.factorial(k))
            power = power * small
        return out

    def constant(self) -> Jet:
        parts = np.zeros_like(self.parts)
        parts[0] = self.value
        return Jet(parts)


# ---------------------------------------------------------------------- programs

Statement = tuple[Any, ...]  # (kind, ...): each appends values to those that the ones after it may use
Block = tuple[tuple[Statement, ...], tuple[int, ...]]  # statements, and which values are its results


@dataclass
class Program:
    """inputs: vectors fed; flags: bools fed; counts: ints fed; body: its results are summed to the loss."""

    inputs: list[np.ndarray]
    flags: list[bool]
    counts: list[int]
    body: Block


UNARY = ("sin", "scale", "rows", "turn", "total", "halt", "identity")
BINARY = ("add", "product", "mix")


class _Writer:
    def __init__(self, seed: int, size: int):
        self.rng = random.Random(seed)
        self.left = size

    def program(self) -> Program:
        rng = self.rng
        inputs = [
            np.round(np.array([rng.uniform(0.2, 1.2) for _ in range(SIZE)]), 3) for _ in range(rng.choice((1, 2)))
        ]
        flags, counts = [rng.random() < 0.5 for _ in range(2)], [rng.randrange(4) for _ in range(2)]
        return Program(inputs, flags, counts, self.block(len(inputs), 0, 0, rng.randint(1, 2)))

    def block(self, known: int, depth: int, loops: int, results: int) -> Block:
        """known: how many values there are already; loops: how many counters."""
        statements: list[Statement] = []
        start = known
        for _ in range(self.rng.randint(1, 3)):
            made = self.statement(known, start, depth, loops)
            statements.append(made)
            known += _width(made)
        newest = range(max(0, known - 3), known)
        return tuple(statements), tuple(
            self.rng.choice(newest) if self.rng.random() < 0.8 else self.rng.randrange(known) for _ in range(results)
        )

    def pick(self, known: int) -> int:
        return self.rng.randrange(max(0, known - 4), known) if self.rng.random() < 0.6 else self.rng.randrange(known)

    def statement(self, known: int, start: int, depth: int, loops: int) -> Statement:
        rng = self.rng
        self.left -= 1
        nested = depth < 3 and self.left > 0
        kind = rng.choices(("unary", "binary", "cond", "while", "array"), (2, 3, 3 * nested, 4 * nested, nested))[0]
        if kind == "unary":
            return "unary", rng.choice(UNARY), self.pick(known)
        if kind == "binary":
            return "binary", rng.choice(BINARY), self.pick(known), self.pick(known)
        if kind == "cond":
            width = rng.randint(1, 2)
            sides = [self.block(known, depth + 1, loops, width) for _ in range(2)]
            return "cond", self.predicate(known, loops), *sides
        if kind == "array":
            body = self.block(known + 1, depth + 1, loops + 1, 1)
            return "array", self.limit(loops), self.pick(known), self.pick(known), body
        width = rng.randint(1, 3)
        inits = tuple(self.pick(known) for _ in range(width))
        body = self.block(known + width, depth + 1, loops + 1, width)
        how = {
            "parallel_iterations": rng.choice((1, 2, 10, 10)),
            "back_prop": rng.random() > 0.05,
            "unknown": rng.random() < 0.3,
            "maximum": rng.choice((None, None, 2)),
            "until": rng.choice((None, None, 3.0)),
        }
        return "while", self.limit(loops), inits, body, how

    def predicate(self, known: int, loops: int) -> tuple[Any, ...]:
        kinds = ["flag", "flag", "value", "constant"] + (["parity", "parity"] if loops else [])
        match self.rng.choice(kinds):
            case "flag":
                return "flag", self.rng.randrange(2)
            case "value":
                return "value", self.pick(known), round(self.rng.uniform(-1, 2), 2)
            case "parity":
                return "parity", self.rng.randrange(loops)
            case _:
                return "constant", self.rng.random() < 0.5

    def limit(self, loops: int) -> tuple[Any, ...]:
        kinds = ["constant", "constant", "fed"] + (["outer"] if loops else [])
        match self.rng.choice(kinds):
            case "constant":
                return "constant", self.rng.choice((0, 1, 2, 2, 3))
            case "fed":
                return "fed", self.rng.randrange(2)
            case _:
                return "outer", self.rng.randrange(loops)


def _width(statement: Statement) -> int:
    match statement[0]:
        case "cond":
            return len(statement[2][1])
        case "while":
            return len(statement[2])
        case _:
            return 1


def generate(seed: int, size: int = 12) -> Program:
    return _Writer(seed, size).program()


# ---------------------------------------------------------------------- as a graph


class _Builder:
    """devices: each statement is made in the scope of one of them, or of none, as the program's seed has it."""

    def __init__(self, tf: Any, program: Program, devices: Sequence[str] = ()):
        self.tf, self.program = tf, program
        self.devices, self.rng = [*devices, None], random.Random(len(repr(program)))
        self.flags = [tf.placeholder(tf.bool, [], name=f"flag{i}") for i in range(len(program.flags))]
        self.counts = [tf.placeholder(tf.int32, [], name=f"count{i}") for i in range(len(program.counts))]

    def run(self, block: Block, values: Sequence[Any], counters: Sequence[Any]) -> list[Any]:
        values = list(values)
        for statement in block[0]:
            with self.scope():
                values += getattr(self, "_" + statement[0])(values, counters, *statement[1:])
        return [values[i] for i in block[1]]

    def scope(self) -> AbstractContextManager[Any]:
        device = self.rng.choice(self.devices)
        return nullcontext() if device is None else self.tf.device(device)

    def _unary(self, values: list[Any], counters: Any, name: str, a: int) -> list[Any]:
        tf, x = self.tf, values[a]
        match name:
            case "sin":
                return [tf.sin(x)]
            case "scale":
                return [x * 0.7 + 0.1]
            case "rows":
                return [tf.gather(x, [1, 0, 1])[:SIZE]]
            case "turn":
                one, two = tf.split(x, 2)
                return [tf.concat([two, one], 0)]
            case "total":
                return [x * tf.reduce_sum(x) * 0.5]
            case "halt":
                return [tf.stop_gradient(x)]
            case _:
                return [tf.identity(x)]

    def _binary(self, values: list[Any], counters: Any, name: str, a: int, b: int) -> list[Any]:
        x, y = values[a], values[b]
        match name:
            case "add":
                return [x + y]
            case "product":
                return [x * y * 0.5]
            case _:
                return [self.tf.sin(x) * y + x]

    def _cond(self, values: list[Any], counters: Any, predicate: Any, yes: Block, no: Block) -> list[Any]:
        out = self.tf.cond(
            self.predicate(predicate, values, counters),
            lambda: self.run(yes, values, counters),
            lambda: self.run(no, values, counters),
            strict=True,
        )
        return list(out)

    def _while(self, values: list[Any], counters: Any, limit: Any, inits: Any, body: Block, how: Any) -> list[Any]:
        tf = self.tf
        end = self.limit(limit, counters)

        def more(i: Any, *state: Any) -> Any:
            goes = i < end
            return goes if how["until"] is None else tf.logical_and(goes, tf.reduce_sum(state[0]) < how["until"])

        def step(i: Any, *state: Any) -> Any:
            out = self.run(body, [*values, *state], [*counters, i])
            return [i + 1, *(out if how["unknown"] else [_with_shape(v) for v in out])]

        shapes = [tf.TensorShape([]), *[tf.TensorShape([None]) for _ in inits]] if how["unknown"] else None
        result = tf.while_loop(
            more, step, [tf.constant(0), *(values[i] for i in inits)], shapes,
            parallel_iterations=how["parallel_iterations"], back_prop=how["back_prop"],
            maximum_iterations=how["maximum"],
        )  # fmt: skip
        return [_with_shape(v) for v in result[1:]]

    def _array(self, values: list[Any], counters: Any, limit: Any, init: int, other: int, body: Block) -> list[Any]:
        """An array that the loop fills: its first element is written before, each one is read in the next round."""
        tf, end = self.tf, self.limit(limit, counters)
        array = tf.TensorArray(tf.float64, size=end + 1, clear_after_read=False, element_shape=[SIZE])
        array = array.write(0, values[init])

        def step(i: Any, array: Any) -> Any:
            [new] = self.run(body, [*values, array.read(i)], [*counters, i])
            return i + 1, array.write(i + 1, new)

        _, array = tf.while_loop(lambda i, _: i < end, step, [tf.constant(0), array])
        return [_with_shape(tf.reduce_sum(array.stack() * values[other], 0))]

    def predicate(self, how: Any, values: list[Any], counters: Any) -> Any:
        match how:
            case "flag", i:
                return self.flags[i]
            case "value", i, bound:
                return self.tf.reduce_sum(values[i]) > bound
            case "parity", i:
                return self.tf.equal(counters[i] % 2, 0)
            case _, known:
                return self.tf.constant(known)

    def limit(self, how: Any, counters: Any) -> Any:
        match how:
            case "constant", n:
                return self.tf.constant(n)
            case "fed", i:
                return self.counts[i]
            case _, i:
                return counters[i]


def _with_shape(value: Any) -> Any:
    value.set_shape([SIZE])
    return value


def build(tf: Any, program: Program, devices: Sequence[str] = ()) -> tuple[dict[Any, Any], Any, list[Any]]:
    """(feeds, the loss, what gradients are asked for)."""
    builder = _Builder(tf, program, devices)
    xs = [tf.placeholder(tf.float64, [SIZE], name=f"x{i}") for i in range(len(program.inputs))]
    outs = builder.run(program.body, xs, [])
    loss = tf.add_n([tf.reduce_sum(tf.sin(o) * o) for o in outs])
    feeds = dict(zip([*xs, *builder.flags, *builder.counts], [*program.inputs, *program.flags, *program.counts]))
    return feeds, loss, xs


def gradients(tf: Any, loss: Any, xs: list[Any], orders: int) -> list[Any]:
    """[the loss, its derivative along all directions, the second derivative along them, ...]; None where there is
    none."""
    out = [loss]
    for order in range(orders):
        dxs = tf.gradients(out[-1], xs) if out[-1] is not None else []
        parts = [
            tf.reduce_sum(tf.convert_to_tensor(dx) * direction(order, i)) for i, dx in enumerate(dxs) if dx is not None
        ]
        out.append(tf.add_n(parts) if parts else None)
    return out


def direction(order: int, number: int) -> np.ndarray:
    return np.round(np.cos(1.0 + 3 * order + 5 * number + np.arange(SIZE)), 3)


# ---------------------------------------------------------------------- as numbers


def evaluate(program: Program, orders: int) -> list[float]:
    """The loss and its derivatives along directions, as `gradients` has them."""
    xs = [Jet.of(x, *(direction(k, i) for k in range(orders))) for i, x in enumerate(program.inputs)]
    outs = _Evaluator(program).run(program.body, xs, [])
    total = outs[0].linear(lambda p: np.sum(p) * 0.0)
    for out in outs:
        total = total + (out.sin() * out).linear(np.sum)
    return [float(total.parts[(1 << k) - 1]) for k in range(orders + 1)]


class _Evaluator(_Builder):
    """The same statements over Jets."""

    def __init__(self, program: Program):
        self.program = program

    def scope(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def _unary(self, values: list[Any], counters: Any, name: str, a: int) -> list[Any]:
        x = values[a]
        match name:
            case "sin":
                return [x.sin()]
            case "scale":
                return [x * 0.7 + 0.1]
            case "rows" | "turn":
                return [x.linear(lambda p: p[[1, 0]])]
            case "total":
                return [x * x.linear(np.sum) * 0.5]
            case "halt":
                return [x.constant()]
            case _:
                return [x]

    def _binary(self, values: list[Any], counters: Any, name: str, a: int, b: int) -> list[Any]:
        x, y = values[a], values[b]
        return [x + y if name == "add" else x * y * 0.5 if name == "product" else x.sin() * y + x]

    def _cond(self, values: list[Any], counters: Any, predicate: Any, yes: Block, no: Block) -> list[Any]:
        return self.run(yes if self.predicate(predicate, values, counters) else no, values, counters)

    def _while(self, values: list[Any], counters: Any, limit: Any, inits: Any, body: Block, how: Any) -> list[Any]:
        end, i, state = self.limit(limit, counters), 0, [values[i] for i in inits]
        end = end if how["maximum"] is None else min(end, how["maximum"])
        while i < end and (how["until"] is None or np.sum(state[0].value) < how["until"]):
            state = self.run(body, [*values, *state], [*counters, i])
            i += 1
        return state if how["back_prop"] else [s.constant() for s in state]

    def _array(self, values: list[Any], counters: Any, limit: Any, init: int, other: int, body: Block) -> list[Any]:
        total = last = values[init]
        for i in range(self.limit(limit, counters)):
            [last] = self.run(body, [*values, last], [*counters, i])
            total = total + last
        return [total * values[other]]

    def predicate(self, how: Any, values: list[Any], counters: Any) -> Any:
        match how:
            case "flag", i:
                return self.program.flags[i]
            case "value", i, bound:
                return np.sum(values[i].value) > bound
            case "parity", i:
                return counters[i] % 2 == 0
            case _, known:
                return known

    def limit(self, how: Any, counters: Any) -> Any:
        match how:
            case "constant", n:
                return n
            case "fed", i:
                return self.program.counts[i]
            case _, i:
                return counters[i]
