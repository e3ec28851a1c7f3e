"""assert_*, is_* and py_func: at once where the graph knows, when it runs otherwise."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

X = np.array([1.0, 2.0, 3.0], np.float32)
PAIRS = [
    (tf.assert_equal, X, X, X + 1),
    (tf.assert_none_equal, X, X + 1, X),
    (tf.assert_less, X, X + 1, X),
    (tf.assert_less_equal, X, X, X - 1),
    (tf.assert_greater, X, X - 1, X),
    (tf.assert_greater_equal, X, X, X + 1),
    (tf.assert_near, X, X, X + 0.1),
]
SIGNS = [
    (tf.assert_positive, X, X - 1),
    (tf.assert_negative, -X, 1 - X),
    (tf.assert_non_negative, X - 1, X - 2),
    (tf.assert_non_positive, 1 - X, 2 - X),
]


def _runs(op: Any, feeds: Any) -> None:
    with tf.Session() as session:
        session.run(op, feeds)


@pytest.mark.parametrize("check, x, good, bad", PAIRS, ids=lambda v: getattr(v, "__name__", ""))
def test_pairs(graph: Any, check: Any, x: Any, good: Any, bad: Any) -> None:
    a, b = tf.placeholder("float32"), tf.placeholder("float32")
    op = check(a, b, message="told")
    _runs(op, {a: x, b: good})
    with pytest.raises(tf.errors.InvalidArgumentError, match="told"):
        _runs(op, {a: x, b: bad})


@pytest.mark.parametrize("check, good, bad", SIGNS, ids=lambda v: getattr(v, "__name__", ""))
def test_signs(graph: Any, check: Any, good: Any, bad: Any) -> None:
    a = tf.placeholder("float32")
    op = check(a)
    _runs(op, {a: good})
    with pytest.raises(tf.errors.InvalidArgumentError, match="did not hold"):
        _runs(op, {a: bad})


def test_what_is_known_is_refused_at_once(graph: Any) -> None:
    assert tf.assert_less([1, 2], [3, 3]).type == "NoOp"
    with pytest.raises(tf.errors.InvalidArgumentError, match="x <"):
        tf.assert_less([1, 4], [3, 3])
    with pytest.raises(TypeError, match="integer"):
        tf.assert_integer(1.5)
    with pytest.raises(TypeError, match="int32"):
        tf.assert_type(1.5, tf.int32)
    with pytest.raises(ValueError, match="float"):
        tf.assert_same_float_dtype([tf.constant(1)])


def test_ranks(graph: Any) -> None:
    known, open_ = tf.placeholder("float32", [None, 2]), tf.placeholder("float32")
    assert tf.assert_rank(known, 2).type == "NoOp"
    for check, wrong in ((tf.assert_rank, 1), (tf.assert_rank_at_least, 3), (tf.assert_rank_in, [0, 1])):
        with pytest.raises(ValueError, match="rank"):
            check(known, wrong)
        with pytest.raises(tf.errors.InvalidArgumentError, match="rank"):
            _runs(check(open_, wrong), {open_: np.ones((2, 2))})
    _runs([tf.assert_rank(open_, 2), tf.assert_rank_at_least(open_, 1)], {open_: np.ones((2, 2))})
    with pytest.raises(ValueError, match="scalar"):
        tf.assert_scalar(known)


def test_shapes_are_ensured(graph: Any) -> None:
    x = tf.placeholder("float32")
    y = tf.ensure_shape(x, [None, 2])
    assert y.shape.as_list() == [None, 2]
    _runs(y, {x: np.ones((3, 2))})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[3, 3\]"):
        _runs(y, {x: np.ones((3, 3))})


def test_order(evaluate: Any) -> None:
    for values, rising, strictly in (([1, 2, 2], True, False), ([1, 2, 3], True, True), ([2, 1], False, False)):
        found = evaluate(lambda x: [tf.is_non_decreasing(x), tf.is_strictly_increasing(x)], np.array(values))
        assert found == [rising, strictly]
    assert tf.is_numeric_tensor(tf.constant(1)) and not tf.is_numeric_tensor(tf.constant("a"))


def test_finite(graph: Any) -> None:
    x = tf.placeholder("float32")
    y = tf.verify_tensor_all_finite(x, "not finite") * 2.0
    every = tf.add_check_numerics_ops()
    _runs([y, every], {x: [1.0]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="not finite"):
        _runs(y, {x: [np.nan]})


def test_python_functions(graph: Any) -> None:
    x = tf.placeholder("float32", [3])
    total, text = tf.py_func(lambda a: (a.sum(), "ab"), [x], [tf.float32, tf.string])
    wrong, failing = tf.py_func(lambda a: 1, [x], tf.float32), tf.py_func(lambda a: 1 / 0, [x], tf.float32)
    nothing = tf.py_func(lambda a: None, [x], [])
    with tf.Session() as session:
        assert session.run([total, text], {x: X}) == [6.0, b"ab"]
        session.run(nothing.op if hasattr(nothing, "op") else nothing, {x: X})
        with pytest.raises(tf.errors.InvalidArgumentError, match="expects float32"):
            session.run(wrong, {x: X})
        with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
            session.run(failing, {x: X})


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (StopIteration, tf.errors.OutOfRangeError),  # of next(rows): the end of the data
        (MemoryError, tf.errors.ResourceExhaustedError),
        (NotImplementedError, tf.errors.UnimplementedError),
        (TypeError, tf.errors.InvalidArgumentError),
        (RuntimeError, tf.errors.UnknownError),
    ],
)
def test_what_a_python_function_raises_is_told_in_tensorflows_classes(graph: Any, raised: Any, kind: Any) -> None:
    def fails() -> None:
        raise raised("end")

    with tf.Session() as session, pytest.raises(kind, match=rf"{raised.__name__}: end \[in the function"):
        session.run(tf.py_func(fails, [], tf.float32))


def test_a_function_of_another_process_is_named(graph: Any) -> None:
    from sparkflow_runtime.wire import py_functions

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"pyfunc_x.*iterators of tf\.data do not"):
        py_functions.find("pyfunc_x")


def test_no_two_processes_have_one_token() -> None:
    """Each has functions of the same numbers; a forked one has its parent's, and later ones of its own."""
    from sparkflow_runtime.wire import py_functions

    code = "from sparkflow_runtime.wire.py_functions import register\nprint(*(register(abs)[0] for _ in range(500)))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    elsewhere = told.stdout.split()
    token, held = py_functions.register(abs)
    for one in elsewhere:
        with pytest.raises(tf.errors.InvalidArgumentError, match="no function 'pyfunc_"):
            py_functions.find(one)
    assert py_functions.find(token) is held.function and token not in elsewhere
    process = py_functions._OWN[0]
    try:
        py_functions._begin_anew()
        assert py_functions.find(token) is held.function
        assert py_functions.register(abs)[0].rpartition("_")[2] != process
    finally:
        py_functions._OWN[0] = process


def test_long_text_of_a_function_is_not_copied(graph: Any) -> None:
    """numpy's own strings, through which it went, have less than 2 GiB."""
    text = bytes(8 << 20)
    given = tf.py_func(lambda: text, [], tf.string)
    with tf.Session() as session:
        tracemalloc.start()
        try:
            assert session.run(given) == text
            assert tracemalloc.get_traced_memory()[1] < len(text)
        finally:
            tracemalloc.stop()


def test_what_is_known_to_fail_shows_its_values(graph: tf.Graph) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        tf.assert_greater(tf.constant([1, 2, 3, 4], name="few"), 2, message="more, please")
    assert failed.value.message == (
        "more, please\nCondition x > y did not hold element-wise:\nx (few:0) = \n['1', '2', '3', '...']\n"
        "y (assert_greater/y:0) = \n2"
    )
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        tf.assert_positive(tf.constant(-1, name="less"))
    assert failed.value.message == "Condition x > 0 did not hold element-wise:\nx (less:0) = \n-1"
    with pytest.raises(tf.errors.InvalidArgumentError) as failed:
        tf.assert_equal([1, 2, 3, 4], 0, data=["own", tf.constant("text")], message="all", summarize=-1)
    assert failed.value.message == "all\nown\nb'text'"
    with pytest.raises(ValueError, match=r"^Expected scalar"):
        tf.assert_scalar(tf.zeros([2]))


def test_what_fails_as_it_runs_has_no_empty_message(graph: tf.Graph) -> None:
    x = tf.placeholder(tf.int32, [1])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"failed: \[Condition x >= 0"):
        session.run(tf.assert_non_negative(x), {x: [-1]})
