"""What an iterator gives after an error: the rows below are what TensorFlow 2.21 gave for the same programs."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.data.elements import values

D = tf.data.Dataset
E = "error"


def _bad(x: Any, wrong: tuple[int, ...] = (3, 7)) -> Any:
    """x, but an integer division by zero where it is one of these."""
    product = tf.constant(1, tf.int64)
    for number in wrong:
        product = product * (x - number)
    return x + tf.constant(0, tf.int64) // product


def _rows(count: int = 12, *wrong: int) -> Any:
    return D.range(count).map(lambda x: _bad(x, wrong or (3, 7)))


def _plain(x: Any) -> int:
    if x in (3, 7):
        raise ValueError("bad")
    return int(x)


def _apart(count: int = 10) -> Any:
    """As `_rows`, by a function that is called for one element at a time."""
    return D.range(count).map(lambda x: tf.py_func(_plain, [x], tf.int64))


def _in_turn(cycle: int, block: int, where: str, calls: int | None = None) -> Any:
    make: dict[str, Callable[[], Any]] = {
        "input": lambda: _rows(8, 3, 5).interleave(lambda x: D.range(x * 10, x * 10 + 3), cycle, block, calls),
        "inner": lambda: D.range(6).interleave(lambda x: D.range(x).map(lambda y: _bad(y, (2,))), cycle, block, calls),
        "function": lambda: D.range(6).interleave(lambda x: D.range(_bad(x)), cycle, block, calls),
    }
    return make[where]()


def _wrong_type() -> Iterator[Any]:
    yield from (0, 1, "a", 3)


def _raises() -> Iterator[int]:
    yield 0
    raise ValueError("bad")


def _sizes(count: int, share: int) -> Any:
    return D.range(count).map(lambda x: tf.fill([x // share], x))


def _choose() -> Any:
    which = D.from_tensor_slices(np.array([0, 0, 1, 0, 1, 1, 0, 0, 1], np.int64))
    return tf.data.experimental.choose_from_datasets([_rows(5, 1), D.range(10, 15)], which)


def _apply(rows: Any, transformation: Any) -> Any:
    return rows.apply(transformation)


ignoring = tf.data.experimental.ignore_errors()
CASES: dict[str, tuple[Callable[[], Any], list[Any]]] = {
    "map": (_rows, [0, 1, 2, E, 4, 5, 6, E, 8, 9, 10, 11]),
    "py_func": (_apart, [0, 1, 2, E, 4, 5, 6, E, 8, 9]),
    "map, parallel": (
        lambda: D.range(6).map(lambda x: tf.py_func(_plain, [x], tf.int64), 2).filter(lambda x: x > 0),
        [1, 2, E, 4, 5],
    ),
    "map, batch: one op": (lambda: _rows().batch(5), [E, E, [10, 11]]),
    "py_func, batch: one op": (lambda: _apart().batch(3), [[0, 1, 2], E, E, [9]]),
    "batch": (lambda: _rows().filter(lambda x: x > -1).batch(3), [[0, 1, 2], E, [4, 5, 6], E, [8, 9, 10], [11]]),
    "batch, parallel": (lambda: _rows().batch(3, num_parallel_calls=2), [[0, 1, 2], E, [4, 5, 6], E, [8, 9, 10], [11]]),
    "padded_batch": (lambda: _rows().padded_batch(4, []), [E, E, [8, 9, 10, 11]]),
    "batch of other shapes": (lambda: _sizes(7, 3).batch(2), [[[], []], E, [[4], [5]], [[6, 6]]]),
    "unbatch": (lambda: _rows().batch(2).unbatch(), [0, 1, E, 4, 5, E, 8, 9, 10, 11]),
    "filter": (lambda: _rows().filter(lambda x: tf.equal(x % 2, 0)), [0, 2, E, 4, 6, E, 8, 10]),
    "its predicate": (lambda: D.range(6).filter(lambda x: _bad(x) > -1), [0, 1, 2, E, 4, 5]),
    "repeat": (lambda: _rows(5).repeat(2), [0, 1, 2, E, 4, 0, 1, 2, E, 4]),
    "repeat of an error": (lambda: _rows(1, 0).repeat(2), [E, E]),
    "repeat of an error for ever": (lambda: _rows(1, 0).repeat(), [E]),
    "repeat of an error of another": (lambda: _apart(4).skip(3).repeat(), [E]),
    "prefetch": (lambda: _apart().prefetch(3), [0, 1, 2, E, 4, 5, 6, E, 8, 9]),
    "take": (lambda: _rows().take(4), [0, 1, 2, E, 4]),
    "take of py_func": (lambda: _apart().take(4), [0, 1, 2, E, 4]),
    "skip": (lambda: _apart(10).skip(2), [2, E, 4, 5, 6, E, 8, 9]),
    "skip over an error": (lambda: _apart(10).skip(4), [E, E]),
    "shard": (lambda: _apart(10).shard(3, 0), [0, E, 4, E, 8]),
    "shuffle by one": (lambda: _apart(6).shuffle(1), [0, 1, 2, E, 4, 5]),
    "zip": (lambda: D.zip((_rows(6), D.range(10, 20))).map(lambda a, b: a + b), [10, 12, 14, E, 18, 20]),
    "zip, both fail": (
        lambda: D.zip((_rows(6), _rows(8, 4), D.range(9))).map(lambda a, b, c: a + b + c), [0, 3, 6, E, E, 15],
    ),
    "concatenate": (lambda: _rows(5).concatenate(_rows(6, 0, 5)), [0, 1, 2, E, 4, E, 1, 2, 3, 4, E]),
    "cache": (lambda: _rows(5).cache().repeat(2), [0, 1, 2, E, 4, 0, 1, 2, 4]),
    "enumerate": (lambda: _rows(6).enumerate().map(lambda i, x: i), [0, 1, 2, E, 4, 5]),
    "flat_map": (lambda: _rows(5).flat_map(D.range), [0, 0, 1, E, 0, 1, 2, 3]),
    "interleave": (lambda: _in_turn(2, 2, "input"),
        [0, 1, 10, 11, 2, 12, 20, 21, E, 40, 41, 22, 42, E, 60, 61, 70, 71, 62, 72]),
    "interleave, inner": (lambda: _in_turn(2, 1, "inner"), [0, 0, 1, 0, 1, 0, E, 1, 0, E, 3, 1, E, 3, 4]),
    "interleave, function": (lambda: _in_turn(3, 1, "function"), [0, 0, E, 0, 1, 1, 0, 2, 1, 3, 2, 3, 4]),
    "interleave, parallel": (lambda: _in_turn(2, 1, "input", 2),
        [0, 10, 1, 11, 2, 12, 20, E, 21, 22, 40, 41, E, 42, 60, 70, 61, 71, 62, 72]),
    "interleave, inner, parallel": (lambda: _in_turn(2, 1, "inner", 2),
        [0, 0, 1, 0, 1, 0, E, 1, E, 0, 3, 1, E, 3, 4]),
    "window": (lambda: _rows().window(3).flat_map(lambda w: w.batch(3)), [[0, 1, 2], E, E, [9, 10, 11]]),
    "window, stride": (lambda: _rows().window(2, 2, 2).flat_map(lambda w: w.batch(3)),
        [[0, 2], [2, 4], [4, 6], [6, 8], [8, 10], [10]]),
    "take_while": (lambda: _apply(_rows(), tf.data.experimental.take_while(lambda x: x < 9)),
        [0, 1, 2, E, 4, 5, 6, E, 8]),
    "unique": (lambda: _apply(_rows(6), tf.data.experimental.unique()), [0, 1, 2, E, 4, 5]),
    "scan": (lambda: _apply(_rows(6), tf.data.experimental.scan(np.int64(0), lambda s, x: (s + x, s))),
        [0, 0, 1, E, 3, 7]),
    "group_by_window": (
        lambda: _apply(_rows(), tf.data.experimental.group_by_window(lambda x: x % 2, lambda k, w: w.batch(9), 2)),
        [[0, 2], E, [1, 5], [4, 6], E, [8, 10], [9, 11]],
    ),
    "choose": (_choose, [0, E, 10, 2, 11, 12, 3, 4, 13]),
    "a generator's element": (lambda: D.from_generator(_wrong_type, tf.int64, []), [0, 1, E, 3]),
    "a generator": (lambda: D.from_generator(_raises, tf.int64, []).repeat(2), [0, E, 0, E]),
    "ignore_errors": (lambda: _apply(_rows(), ignoring).batch(4), [[0, 1, 2, 4], [5, 6, 8, 9], [10, 11]]),
    "ignore_errors of batches": (lambda: _apply(_rows().batch(3), ignoring).repeat(2), [[0, 1, 2], [9, 10, 11]] * 2),
}  # fmt: skip


def drained(dataset: Any, most: int = 60) -> list[Any]:
    """Its elements and errors, until it ends."""
    element, found = dataset.make_one_shot_iterator().get_next(), list[Any]()
    with tf.Session() as session:
        while len(found) < most:
            try:
                found.append(session.run(element).tolist())
            except tf.errors.OutOfRangeError:
                break
            except tf.errors.OpError:
                found.append(E)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)
    return found


@pytest.mark.parametrize("make, wanted", CASES.values(), ids=CASES)
def test_goes_on_as_tensorflow_does(make: Callable[[], Any], wanted: list[Any], graph: Any) -> None:
    assert drained(make()) == wanted


def test_shuffled_rows_are_all_there(graph: Any) -> None:
    """Also after errors that come while the buffer is full."""
    for rows in (_apart(10), _rows(10), _apply(_rows(10).batch(1), tf.data.experimental.unbatch())):
        for size in (1, 2, 4, 100):
            found = drained(rows.shuffle(size, seed=1).repeat(2))
            assert found.count(E) == 4
            assert sorted(x for x in found if x != E) == sorted([0, 1, 2, 4, 5, 6, 8, 9] * 2)


def test_rows_behind_a_wrong_one_of_a_batch_are_in_the_next(graph: Any) -> None:
    """The batch is made at once: of a function that has a form for many, after transformations that only move rows."""
    assert drained(_rows().take(20).batch(4)) == [E, E, [8, 9, 10, 11]]
    assert drained(_rows(9).take(5).batch(3)) == [[0, 1, 2], E, [4, 5]]


def test_a_repeat_ends_where_a_pass_gives_nothing(graph: Any) -> None:
    passes = iter([[1, 2], [3], []])
    assert values(D.from_generator(lambda: iter(next(passes)), tf.int64, []).repeat()) == [1, 2, 3]


def test_a_file_that_is_not_there_is_passed_over(graph: Any, tmp_path: Any) -> None:
    """TensorFlow says NotFoundError for ever, and ignore_errors never ends there."""
    (tmp_path / "a.txt").write_text("x\ny\n")
    names = [str(tmp_path / n) for n in ("a.txt", "none.txt", "a.txt")]
    assert values(_apply(tf.data.TextLineDataset(names), ignoring)) == [b"x", b"y"] * 2
    assert values(_apply(D.from_tensor_slices(names).flat_map(tf.data.TextLineDataset), ignoring)) == [b"x", b"y"] * 2


def test_records_of_the_next_file_follow_a_broken_one(graph: Any, tmp_path: Any) -> None:
    path, broken = str(tmp_path / "a"), str(tmp_path / "b")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(3):
            writer.write(b"%d" % i)
    with open(path, "rb") as file:
        data = file.read()
    with open(broken, "wb") as file:
        file.write(data[:-2])
    element = tf.data.TFRecordDataset([broken, path]).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(element) for _ in range(2)] == [b"0", b"1"]
        with pytest.raises(tf.errors.DataLossError):
            session.run(element)
        assert [session.run(element) for _ in range(3)] == [b"0", b"1", b"2"]


def test_threads_end_after_errors(graph: Any) -> None:
    """Those that make elements ahead, of an iterator that is left in the middle."""

    def slow(x: Any) -> int:
        time.sleep(0.003)
        return _plain(x % 10)

    rows = D.range(200).map(lambda x: tf.py_func(slow, [x], tf.int64), num_parallel_calls=2).prefetch(2)
    element, errors = rows.make_one_shot_iterator().get_next(), 0
    with tf.Session() as session:
        for _ in range(100):
            try:
                session.run(element)
            except tf.errors.OpError:
                errors += 1
    assert errors == 20
    del session
    until_s = time.monotonic() + 5
    while any(t.name.startswith(("sparkflow-map", "sparkflow-prefetch")) for t in threading.enumerate()):
        gc.collect()
        assert time.monotonic() < until_s
        time.sleep(0.01)
