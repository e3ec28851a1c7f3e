"""Random programs of branches, loops and jumps: converted functions of tensors do what Python does with numbers."""

from __future__ import annotations

import importlib.util
import random
import types
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf

ARGUMENTS = [(1, 2, 3), (-2, 5, 0), (7, -1, 4), (0, 0, 0)]
NAMES = ["a", "b", "c"]


class Program:
    """Statements over a, b and c; every loop ends."""

    def __init__(self, seed: int):
        self._random, self._loops = random.Random(seed), 0
        lines = ["import sparkflow as tf", "", "def f(v, a, b, c):", *self._block(3, False, 1), "    return a, b, c"]
        self.source = "\n".join(lines) + "\n"

    def _value(self) -> str:
        r = self._random
        if r.random() < 0.4:
            return r.choice(NAMES)
        if r.random() < 0.4:
            return str(r.randint(-3, 5))
        return f"({r.choice(NAMES)} {r.choice('+-*')} {r.choice([*NAMES, '2', '-1'])}) % 97"

    def _condition(self) -> str:
        r = self._random
        plain = f"{r.choice(NAMES)} {r.choice(['<', '>', '<=', '==', '!='])} {self._value()}"
        more = f"{r.choice(NAMES)} > {r.randint(-3, 3)}"
        return r.choices([plain, f"{plain} and {more}", f"{plain} or not {more}", "True", "False"], [14, 3, 3, 1, 1])[0]

    def _block(self, depth: int, in_loop: bool, indent: int) -> list[str]:
        return [line for _ in range(self._random.randint(1, 3)) for line in self._statement(depth, in_loop, indent)]

    def _statement(self, depth: int, in_loop: bool, indent: int) -> list[str]:
        r, pad = self._random, "    " * indent
        kinds = ["assign", "if", "jump", "return", "for", "while", "with"] if depth > 0 else ["assign"]
        match r.choices(kinds, [8, 5, 2 * in_loop, 1, 3, 2, 1][: len(kinds)])[0]:
            case "assign":
                text = [f"{r.choice(NAMES)} = {self._value()}", "a, b = b, a + 1", f"{r.choice(NAMES)} += 2"]
                kept = [f"v.assign_add({self._value()})", f"v.assign({self._value()})", "a = v.read_value() % 97"]
                return [pad + r.choice([*text, *text, *kept])]
            case "if":
                other = [pad + "else:", *self._block(depth - 1, in_loop, indent + 1)] if r.random() < 0.5 else []
                return [f"{pad}if {self._condition()}:", *self._block(depth - 1, in_loop, indent + 1), *other]
            case "jump":
                return [f"{pad}if {self._condition()}:", f"{pad}    {r.choice(['break', 'continue'])}"]
            case "return":
                return [f"{pad}if {self._condition()}:", f"{pad}    return a, b, {self._value()}"]
            case "with":
                return [f"{pad}with tf.name_scope('n'):", *self._block(depth - 1, in_loop, indent + 1)]
        self._loops += 1
        name = f"n{self._loops}"
        head = [f"{pad}for {name} in {r.choice(['tf.range', 'tf.range', 'range'])}({r.randint(0, 4)}):"]
        first = [f"{pad}    c += {name}"]
        if r.random() < 0.4:
            head = [f"{pad}{name} = {r.choice(['a % 4', '3'])}", f"{pad}while {name} > 0 and ({self._condition()}):"]
            first = [f"{pad}    {name} = {name} - 1"]
        other = [pad + "else:", *self._block(depth - 1, in_loop, indent + 1)] if r.random() < 0.2 else []
        return [*head, *first, *self._block(depth - 1, True, indent + 1), *other]


class Kept:
    """A variable as Python has it."""

    def __init__(self) -> None:
        self.value = 1

    def assign(self, value: int) -> None:
        self.value = value

    def assign_add(self, value: int) -> None:
        self.value += value

    def read_value(self) -> int:
        return self.value


@pytest.mark.parametrize("seed", range(60))
def test_converted_functions_compute_what_python_does(seed: int, tmp_path: Path) -> None:
    file = tmp_path / f"program_{seed}.py"
    file.write_text(Program(seed).source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    scopes = types.SimpleNamespace(range=range, name_scope=tf.name_scope)
    plain = types.FunctionType(module.f.__code__, {**vars(module), "tf": scopes})
    kept = Kept()
    wanted = [(*plain(kept, *given), kept.value) for given in ARGUMENTS]
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(tf.int32, []) for _ in NAMES]
        v = tf.Variable(1)
        session.run(v.initializer)
        outputs: Any = tf.function(module.f)(v, *inputs)
        found = [(*session.run(outputs, dict(zip(inputs, given))), session.run(v)) for given in ARGUMENTS]
    assert [tuple(map(int, row)) for row in found] == wanted, file.read_text()
