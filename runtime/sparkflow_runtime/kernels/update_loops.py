"""The optimizers' formulas over rows of many variables at once, in place: what `rules` says in numpy, compiled.

A loop takes `memory` (kernels/memory.py), where each variable t and its slots begin (refs[t]), and a line of `batch`
for each: the width of its rows; which rows change, rows[start:][:count], one after the other where one repeats; the
position of the first one's gradient, and the step from one gradient to the next. Then come the op's factors, its flag
last. A dense update is one row as wide as the variable. Nothing here checks a row number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels import rules
from sparkflow_runtime.kernels.compiled import Compiled, compiled
from sparkflow_runtime.kernels.row_fetch import TO_WRITE, fetch_to_write
from sparkflow_runtime.kernels.row_loops import FLOATS, rows_at
from sparkflow_runtime.kernels.rows import rounds

Array = Any
_TABLE = "uint64[:, ::1]"


def _loop(flag: str = "") -> Callable[[Callable[..., Any]], Compiled]:
    """Register a loop; its numpy version is the rule of the same name. flag: the attribute that factors end with."""

    def register(loop: Callable[..., Any]) -> Compiled:
        signatures = [f"void({item}[::1], {_TABLE}, {_TABLE}, uint64[::1], {item}[::1])" for item in FLOATS]
        found = compiled(signatures, parts=TO_WRITE)(loop)
        return found.otherwise(_by_rule(getattr(rules, loop.__name__), flag))

    return register


def _by_rule(rule: rules.Rule, flag: str) -> Callable[..., None]:
    def run(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
        attrs, scalars = ({flag: bool(factors[-1])}, factors[:-1]) if flag else ({}, factors)
        for at, (width, start, count, first, step) in zip(refs.view(np.int64).tolist(), batch.view(np.int64).tolist()):
            mine = rows[start : start + count].view(np.int64)
            if count and width:
                held = [rows_at(memory, ref, int(mine.max()) + 1, width, width) for ref in at]
                update_rows(np, rule, attrs, held, rows_at(memory, first, count, width, step), mine, scalars)

    return run


def update_rows(
    xp: Any, rule: rules.Rule, attrs: dict[str, Any], held: list[Array], grad: Array, rows: Array, scalars: Any
) -> None:
    """Change these rows of the arrays by the rule: gathered once, changed, and written back once."""
    for part in rounds(xp, rows):
        at, mine = (rows, grad) if part is None else (rows[part], grad[part])
        changed = [array.take(at, axis=0) for array in held]
        rule(xp, attrs, changed, mine, *scalars)
        for array, new in zip(held, changed):
            array[at] = new


@_loop()
def gradient_descent(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    alpha = factors[0]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            v, g = refs[t, 0] + rows[start + j] * n, at + j * step
            for k in range(n):
                memory[v + k] -= alpha * memory[g + k]


@_loop(flag="use_nesterov")
def momentum(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    lr, factor, nesterov = factors[0], factors[1], factors[2] != 0
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a = refs[t, 0] + offset, refs[t, 1] + offset
            if nesterov:
                for k in range(n):
                    x = memory[g + k]
                    s = memory[a + k] * factor + x
                    memory[a + k] = s
                    memory[v + k] -= lr * (x + factor * s)
            else:
                for k in range(n):
                    s = memory[a + k] * factor + memory[g + k]
                    memory[a + k] = s
                    memory[v + k] -= lr * s


@_loop(flag="update_slots")
def adagrad(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    lr, update_slots = factors[0], factors[1] != 0
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a = refs[t, 0] + offset, refs[t, 1] + offset
            if update_slots:
                for k in range(n):
                    x = memory[g + k]
                    s = memory[a + k] + x * x
                    memory[a + k] = s
                    memory[v + k] -= lr * x / math.sqrt(s)
            else:
                for k in range(n):
                    memory[v + k] -= lr * memory[g + k] / math.sqrt(memory[a + k])


@_loop(flag="use_nesterov")
def adam(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    one = factors.dtype.type(1)
    beta1, epsilon, nesterov = factors[3], factors[5], factors[6] != 0
    keep1, keep2 = one - beta1, one - factors[4]
    rate = factors[2] * math.sqrt(one - factors[1]) / (one - factors[0])
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, m, s = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            if nesterov:
                for k in range(n):
                    x = memory[g + k]
                    first = memory[m + k] + (x - memory[m + k]) * keep1
                    second = memory[s + k] + (x * x - memory[s + k]) * keep2
                    memory[m + k], memory[s + k] = first, second
                    memory[v + k] -= rate * (beta1 * first + keep1 * x) / (math.sqrt(second) + epsilon)
            else:
                for k in range(n):
                    x = memory[g + k]
                    first = memory[m + k] + (x - memory[m + k]) * keep1
                    second = memory[s + k] + (x * x - memory[s + k]) * keep2
                    memory[m + k], memory[s + k] = first, second
                    memory[v + k] -= rate * first / (math.sqrt(second) + epsilon)


@_loop()
def rms_prop(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    lr, keep, factor, epsilon = factors[0], factors.dtype.type(1) - factors[1], factors[2], factors[3]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, s, m = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            for k in range(n):
                x = memory[g + k]
                second = memory[s + k] + (x * x - memory[s + k]) * keep
                memory[s + k] = second
                moved = memory[m + k] * factor + lr * x / math.sqrt(second + epsilon)
                memory[m + k] = moved
                memory[v + k] -= moved


@_loop()
def decayed_adam(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    rate, beta1, beta2, epsilon, keep1, keep2 = factors[0], factors[1], factors[2], factors[3], factors[4], factors[5]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, m, s = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            for k in range(n):
                x = memory[g + k]
                first, second = memory[m + k] * beta1 + x * keep1, memory[s + k] * beta2 + x * x * keep2
                memory[m + k], memory[s + k] = first, second
                memory[v + k] -= rate * first / (math.sqrt(second) + epsilon)


@_loop("dense")
def ftrl(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    """Of the usual power -0.5, with multiply_linear_by_lr not set. The V2 op has l2_shrinkage before the power."""
    zero, two = factors.dtype.type(0), factors.dtype.type(2)
    shrunk, dense = factors.shape[0] == 6, factors[-1] != 0
    lr, l1, ridge, shrink = factors[0], factors[1], two * factors[2], two * factors[3]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a, z = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            for k in range(n):
                x, w = memory[g + k], memory[v + k]
                total = memory[a + k] + x * x
                rate = math.sqrt(total)
                shift = (rate - math.sqrt(memory[a + k])) / lr * w
                line = memory[z + k] + ((x + shrink * w if shrunk else x) - shift)
                memory[a + k], memory[z + k] = total, line
                clipped = l1 if line > l1 else -l1 if line < -l1 else line
                stays = dense and not abs(line) > l1
                memory[v + k] = zero if stays else (clipped - line) / (rate / lr + ridge)


@_loop()
def centered_rms_prop(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    lr, keep, factor, epsilon = factors[0], factors.dtype.type(1) - factors[1], factors[2], factors[3]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a, s, m = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset, refs[t, 3] + offset
            for k in range(n):
                x = memory[g + k]
                second = memory[s + k] + (x * x - memory[s + k]) * keep
                first = memory[a + k] + (x - memory[a + k]) * keep
                memory[s + k], memory[a + k] = second, first
                moved = memory[m + k] * factor + lr * x / math.sqrt(second - first * first + epsilon)
                memory[m + k] = moved
                memory[v + k] -= moved


@_loop()
def adadelta(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    lr, rho, keep, epsilon = factors[0], factors[1], factors.dtype.type(1) - factors[1], factors[2]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a, u = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            for k in range(n):
                x = memory[g + k]
                second = memory[a + k] * rho + x * x * keep
                memory[a + k] = second
                moved = math.sqrt(memory[u + k] + epsilon) / math.sqrt(second + epsilon) * x
                memory[u + k] = memory[u + k] * rho + moved * moved * keep
                memory[v + k] -= lr * moved


@_loop()
def proximal_gradient_descent(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    zero, alpha = factors.dtype.type(0), factors[0]
    less, whole = alpha * factors[1], factors.dtype.type(1) + alpha * factors[2]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            v, g = refs[t, 0] + rows[start + j] * n, at + j * step
            for k in range(n):
                moved = memory[v + k] - alpha * memory[g + k]
                memory[v + k] = math.copysign(max(abs(moved) - less, zero), moved) / whole


@_loop()
def proximal_adagrad(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    zero, one, lr, l1, l2 = factors.dtype.type(0), factors.dtype.type(1), factors[0], factors[1], factors[2]
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a = refs[t, 0] + offset, refs[t, 1] + offset
            for k in range(n):
                x = memory[g + k]
                total = memory[a + k] + x * x
                memory[a + k] = total
                rate = lr / math.sqrt(total)
                moved = memory[v + k] - x * rate
                memory[v + k] = math.copysign(max(abs(moved) - rate * l1, zero), moved) / (one + rate * l2)


@_loop()
def adagrad_da(memory: Array, refs: Array, batch: Array, rows: Array, factors: Array) -> None:
    zero, lr = factors.dtype.type(0), factors[0]
    less, ridge = factors[1] * factors[3], factors[2] * factors[3] * lr
    for t in range(batch.shape[0]):
        n, start, count, at, step = batch[t, 0], batch[t, 1], batch[t, 2], batch[t, 3], batch[t, 4]
        for j in range(count):
            fetch_to_write(memory, refs, t, n, rows, start + j, start + count)
            offset, g = rows[start + j] * n, at + j * step
            v, a, s = refs[t, 0] + offset, refs[t, 1] + offset, refs[t, 2] + offset
            for k in range(n):
                x = memory[g + k]
                total, squares = memory[a + k] + x, memory[s + k] + x * x
                memory[a + k], memory[s + k] = total, squares
                near = math.copysign(max(abs(total) - less, zero), total)
                memory[v + k] = -lr * near / (ridge + math.sqrt(squares))
