"""Python's control flow over tensors: what converted functions compute, and what they refuse. Values are TensorFlow's,
or Python's where TensorFlow refuses the program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _run(function: Any, *values: Any) -> Any:
    """The function, converted, of placeholders that are fed the values."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = [tf.placeholder(np.asarray(v, np.float32 if isinstance(v, float) else None).dtype) for v in values]
        for x, v in zip(given, values):
            x.set_shape(np.shape(v))
        return session.run(tf.autograph.to_graph(function)(*given), dict(zip(given, values)))


def branches(x: Any) -> Any:
    if x > 100.0:
        y = x
    elif x > 0.0 and not (x == 7.0 or x < 1.0):
        y = x * 2.0
    else:
        y = 0
    return y if y != 4.0 else -1


def loop_that_breaks(x: Any, n: Any) -> Any:
    total = 0.0
    for i in tf.range(n):
        if x > 3.0:
            total += x
        elif i == 2:
            continue
        else:
            total -= 1.0
        if total < -4.0:
            break
    else:
        total = total + 1000.0
    return total


def loop_that_returns(x: Any) -> Any:
    for i in tf.range(10):
        y = x * float(i)
        if y > 5.0:
            return y
    return -x


def returns(x: Any) -> Any:
    with tf.name_scope("w"):
        if x > 100.0:
            return x
    if x > 0.0:
        return x * 2.0
    elif x < -5.0:
        return x * 3.0
    z = 0.0
    for _ in range(3):
        z += x
        if z < -2.0:
            return z
    return -x


def nested(n: Any) -> Any:
    a, b = 0, 1
    while a < n:
        a, b = b, a + b
    x = 0
    for i in tf.range(n):
        for j in tf.range(i):
            if j > 3:
                break
            x += j
        if x > 50:
            break
    else:
        x = -x
    kept = []
    for i in range(3):
        if i == 1:
            continue
        kept.append(a * i)
    return [*kept, x]


CASES = [
    (branches, (101.0,)), (branches, (7.0,)), (branches, (2.0,)), (branches, (3.0,)), (branches, (-1.0,)),
    (loop_that_returns, (1.5,)), (loop_that_returns, (0.1,)), (loop_that_returns, (9.0,)),
    (returns, (101.0,)), (returns, (1.0,)), (returns, (-6.0,)), (returns, (-0.9,)), (returns, (-0.1,)),
]  # fmt: skip


@pytest.mark.parametrize("function, values", CASES)
def test_branches_and_returns_are_pythons(monkeypatch: pytest.MonkeyPatch, function: Any, values: Any) -> None:
    found = _run(function, *values)
    monkeypatch.setattr(tf, "range", range)
    assert found == pytest.approx(function(*values))


@pytest.mark.parametrize("x, n, wanted", [(5.0, 4, 1020.0), (1.0, 10, -5.0), (1.0, 3, 998.0), (1.0, 0, 1000.0)])
def test_a_loop_is_left_and_goes_on(x: float, n: int, wanted: float) -> None:
    assert _run(loop_that_breaks, x, np.int32(n)) == wanted


def test_loops_in_loops_and_pythons_own() -> None:
    assert _run(nested, np.int32(20)) == [0, 42, 52]


def test_items_of_python_and_of_tensors() -> None:
    def function(x: Any) -> Any:
        c = 0
        for i, e in enumerate(x):
            if e == 2.0:
                c += i
        for a, b in zip(x, x * 2.0):
            c += int(a + b)
        out = tf.TensorArray(tf.float32, len(x))
        for i, e in enumerate(x):
            out = out.write(i, e * 2.0 if e > 1.0 else -e)
        return c, max(x), sum(x), any(x > 2.0), out.stack(), sorted(x, reverse=True)

    found = _run(function, np.float32([1, 2, 3]))
    assert found[:4] == (19, 3.0, 6.0, True)
    assert found[4].tolist() == [-1, 4, 6] and found[5].tolist() == [3, 2, 1]


def test_attributes_and_items_are_carried() -> None:
    class State:
        total: Any = 0.0

    def function(x: Any) -> Any:
        state, d = State(), {"k": tf.constant(1.0)}
        for _ in tf.range(3):
            state.total = state.total + x
            if state.total > 4.0:
                d["k"] = d["k"] * 2.0
        while state.total > 0.0:
            state.total -= 1.0
            if tf.equal(state.total, 3.0):
                continue
            d["k"] += 1.0
        return state.total, d["k"]

    assert _run(function, 2.0) == (0.0, 7.0)


def test_methods_closures_lambdas_and_private_names() -> None:
    class Base:
        def go(self, x: Any) -> Any:
            return x + 1.0

    class Own(Base):
        def __init__(self) -> None:
            self.__factor = 2.0

        def go(self, x: Any, *, extra: float = 3.0) -> Any:
            if x > 100.0:
                return x
            y = super().go(x) * self.__factor

            def inner(z: Any) -> Any:
                if z > 0.0:
                    return z * 2.0
                return z

            size = lambda q: q if q > 0.0 else -q  # noqa: E731
            return inner(y) + size(-y) + extra

    own = Own()
    for x in (1.0, -3.0, 101.0):
        assert _run(own.go, x) == pytest.approx(own.go(x))


def test_shapes_that_grow_are_told() -> None:
    def function(x: Any) -> Any:
        for _ in tf.range(3):
            tf.autograph.experimental.set_loop_options(shape_invariants=[(x, tf.TensorShape([None]))])
            x = tf.concat([x, x], 0)
        return x

    def without(x: Any) -> Any:
        for _ in tf.range(3):
            x = tf.concat([x, x], 0)
        return x

    assert _run(function, np.float32([1])).tolist() == [1] * 8
    with pytest.raises(ValueError, match=r"'x' has shape .* but shape .*set_loop_options"):
        _run(without, np.float32([1]))


def test_what_no_graph_can_have_is_refused_by_name() -> None:
    def one_branch(x: Any) -> Any:
        if x > 0.0:
            y = 1.0
        return y

    def other_type(x: Any) -> Any:
        y = x if x > 0.0 else tf.constant(1)
        return y

    def text(x: Any) -> Any:
        for row in x:
            kind = "a" if row is None else "b"
        return kind

    def nothing(x: Any) -> Any:
        if x > 0.0:
            return x

    with pytest.raises(
        ValueError, match="'y' has no value here: it must also be initialized in the else branch of 'if x"
    ):
        _run(one_branch, 1.0)
    with pytest.raises(TypeError, match=r"dtype float32 at the end of the main branch .* int32 at the end of the else"):
        _run(other_type, 1.0)
    with pytest.raises(ValueError, match="'kind' has no value here: it must be defined before the loop"):
        _run(text, np.float32([1]))
    with pytest.raises(TypeError, match="None at the end of the else branch"):
        _run(nothing, 1.0)


def test_gradients_go_through_converted_loops() -> None:
    def power(x: Any) -> Any:
        y = x
        while y < 10.0:
            y = y * x
        return y

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        y = tf.autograph.to_graph(power)(x)
        assert session.run([y, *tf.gradients(y, x)], {x: 2.0}) == [16.0, 32.0]


def test_errors_stand_at_the_programs_lines() -> None:
    def wrong(x: Any) -> Any:
        if x > 0.0:
            y = tf.matmul(x, x)
        else:
            y = x
        return y

    with pytest.raises(ValueError) as caught:
        _run(wrong, 1.0)
    frames = [(str(entry.path).rpartition("/")[2], entry.lineno + 1) for entry in caught.traceback]
    line = wrong.__code__.co_firstlineno + 2
    assert ("test_autograph.py", line) in frames, frames


def test_code_is_shown_and_functions_stay_as_they_are() -> None:
    assert "ag__.if_stmt" in tf.autograph.to_code(branches)

    @tf.autograph.experimental.do_not_convert
    def python(x: Any) -> Any:
        return 1 if x is not None else 2

    assert tf.autograph.to_graph(lambda x: python(x) and x)(3.0) == 3.0
    with pytest.raises(ValueError, match="cannot be converted"):
        tf.autograph.to_graph(len)


def test_functions_of_datasets_are_converted() -> None:
    """As TensorFlow does since 1.13."""

    def parse(x: Any) -> Any:
        if x > 3:
            y = x * 10
        else:
            y = -x
        for i in tf.range(3):
            y += tf.cast(i, tf.int64)
        return y, y if tf.equal(x, 2) else x

    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.range(6).map(parse).filter(lambda a, b: a > 0 and not tf.equal(b, 5))
        element = tf.data.make_one_shot_iterator(dataset).get_next()
        found = []
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(element))
    assert found == [(3, 0), (2, 1), (1, 1), (43, 4)]


def shifted(x: Any) -> Any:
    if x > 0:
        return x + 1
    return x - 1


class Shifting:
    def shifted(self, x: Any) -> Any:
        return shifted(x)


def test_a_method_calls_a_function_of_its_name(graph: tf.Graph) -> None:
    """As libraries do; the method must not take itself for it."""
    made = tf.autograph.to_graph(Shifting().shifted)
    assert made.__name__ == made.__code__.co_name == "shifted"
    with tf.Session() as session:
        assert session.run([made(tf.constant(2)), made(tf.constant(-2))]) == [3, -3]
