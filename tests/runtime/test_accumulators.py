"""Accumulators: what is averaged, what is dropped, and that the order of arrival does not show in the bits."""

import itertools
import threading

import numpy as np
import pytest

from sparkflow_runtime.resources import joint_takes
from sparkflow_runtime.resources.accumulators import Accumulator, SparseAccumulator
from sparkflow_runtime.resources.joint_takes import JointTake, Together, add_parts
from sparkflow_runtime.resources.row_means import merged
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import CancelledError, DeadlineExceededError, InvalidArgumentError
from tests.interrupts import interrupted

RNG = np.random.default_rng(0)


class Taken:
    """A take under way, in a step of its own."""

    def __init__(self, accumulator, required):
        self.error, self.outputs, self.count, self.callback = None, None, 0, None
        accumulator.take(required, self.done, self)

    def done(self, error, outputs):
        self.error, self.outputs, self.count = error, outputs, self.count + 1

    def on_cancel(self, callback, describe=None):
        self.callback = callback
        return 1

    def off_cancel(self, token):
        assert token == 1
        self.callback = None


def dense(shape=(2,), reduction="MEAN", dtype="float32"):
    return Accumulator("a", dtypes.ALL[dtype], shape, reduction)


def sparse(shape=(10, 2), reduction="MEAN"):
    return SparseAccumulator("s", dtypes.float32, shape, reduction)


def grad(*values):
    return np.array(values, np.float32)


def add_rows(accumulator, step, indices, values, rank=0, shape=(10, 2)):
    rows = np.array(values, np.float32).reshape(len(indices), -1)
    accumulator.apply_rows(step, np.array(indices, np.int64), rows, shape, rank)


# ---------------------------------------------------------------------- dense


@pytest.mark.parametrize("reduction, want", [("MEAN", [7 / 3, 13 / 3]), ("SUM", [7, 13])])
def test_takes_all_that_is_held_and_begins_the_next_step(reduction, want):
    acc = dense(reduction=reduction)
    for values in ([1, 2], [3, 5], [3, 6]):
        acc.apply(0, grad(*values))
    taken = Taken(acc, 2)
    np.testing.assert_allclose(taken.outputs[0], np.array(want, np.float32), rtol=1e-6)
    assert taken.outputs[0].dtype == np.float32
    assert acc.num_accumulated == 0 and acc.step == 1
    acc.apply(0, grad(1, 2))
    assert acc.num_accumulated == 0, "a gradient of step 0 came too late"


def test_set_step_drops_older_gradients():
    acc = dense()
    acc.set_step(5)
    acc.apply(4, grad(1, 2))
    acc.apply(5, grad(1, 2))
    assert acc.num_accumulated == 1


def test_a_take_waits_and_takes_are_served_in_order():
    acc = dense()
    first, second = Taken(acc, 2), Taken(acc, 1)
    acc.apply(0, grad(1, 1))
    assert first.count == second.count == 0
    acc.apply(0, grad(3, 3))
    assert list(first.outputs[0]) == [2, 2] and second.count == 0
    acc.apply(1, grad(5, 5))
    assert list(second.outputs[0]) == [5, 5]
    assert first.callback is second.callback is None


def test_the_order_of_arrival_does_not_show():
    grads = [(RNG.normal(size=1000) * 10.0**k).astype(np.float32) for k in range(-2, 3)]
    results, by_arrival = set(), set()
    for order in itertools.permutations(range(5)):
        acc = dense((1000,))
        for rank in order:
            acc.apply(0, grads[rank], rank)
        results.add(Taken(acc, 5).outputs[0].tobytes())
        by_arrival.add(sum(grads[rank] for rank in order).tobytes())
    assert len(results) == 1 < len(by_arrival)


def test_gradients_are_copied():
    acc, buffer = dense(), grad(1, 2)
    acc.apply(0, buffer)
    buffer[:] = 9
    assert list(Taken(acc, 1).outputs[0]) == [1, 2]


def test_scalar_gradients_keep_their_dtype():
    acc = dense((), dtype="float64")
    acc.apply(0, np.float64(1))
    acc.apply(0, np.float64(2))
    out = Taken(acc, 2).outputs[0]
    assert out == 1.5 and out.dtype == np.float64


def test_a_cancelled_take_leaves_the_gradients():
    acc = dense()
    taken = Taken(acc, 2)
    acc.apply(0, grad(1, 2), 3)
    taken.callback(CancelledError("over"))
    assert isinstance(taken.error, CancelledError) and taken.count == 1
    assert acc.num_accumulated == 1 and acc.step == 0
    late = Taken(acc, 4)
    late.callback(DeadlineExceededError("too slow"))
    assert "Accumulator 'a' at step 0 has 1 gradients (of replicas [3]) and waits for 4" in late.error.message


@pytest.mark.parametrize("event", range(20))
def test_an_interrupted_take_takes_nothing_later(event):
    acc = dense()
    interrupted(lambda: Taken(acc, 1), event)
    acc.apply(0, grad(1, 2))
    taken = Taken(acc, 1)
    acc.apply(1, grad(3, 4))
    assert taken.count == 1 and not acc._takes


def test_a_take_whose_average_cannot_be_made_can_still_be_withdrawn(monkeypatch):
    def no_memory(gradients):
        raise MemoryError

    acc = dense()
    taken = Taken(acc, 1)
    with monkeypatch.context() as patch:
        patch.setattr(acc, "_reduced", no_memory)
        with pytest.raises(MemoryError):
            acc.apply(0, grad(1, 2))
    acc.apply(0, grad(3, 4))
    assert taken.count == 1 and list(taken.outputs[0]) == [3, 4]
    late = Taken(acc, 1)
    with monkeypatch.context() as patch:
        patch.setattr(acc, "_reduced", no_memory)
        with pytest.raises(MemoryError):
            acc.apply(1, grad(1, 2))
    late.callback(DeadlineExceededError("too slow"))
    assert late.count == 1 and isinstance(late.error, DeadlineExceededError)


def test_refusals():
    acc = dense()
    with pytest.raises(InvalidArgumentError, match=r"expected a gradient of shape \[2\], got \[3\]"):
        acc.apply(0, grad(1, 2, 3))
    with pytest.raises(InvalidArgumentError, match="takes float32, got a gradient of float64"):
        acc.apply(0, np.zeros(2))
    with pytest.raises(InvalidArgumentError, match="num_required must be 1 or more, got 0"):
        Taken(acc, 0)
    with pytest.raises(InvalidArgumentError, match="MEAN or SUM"):
        dense(reduction="MAX")
    free = dense(None)
    free.apply(0, grad(1))
    with pytest.raises(InvalidArgumentError, match=r"expected a gradient of shape \[1\], got \[2\]"):
        free.apply(0, grad(1, 2))


def test_threads_lose_no_gradient():
    acc, takes = dense(), [Taken(dense(), 1)]
    takes = [Taken(acc, 4) for _ in range(100)]
    barrier = threading.Barrier(4)

    def replica(rank):
        for step in range(100):
            acc.apply(step, grad(rank, step), rank)
            barrier.wait()

    threads = [threading.Thread(target=replica, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [t.outputs[0].tolist() for t in takes] == [[1.5, step] for step in range(100)]


# ---------------------------------------------------------------------- sparse (values as TensorFlow 2.21 gives them)


@pytest.mark.parametrize("reduction, row3", [("MEAN", 4), ("SUM", 8)])
def test_a_row_is_averaged_over_the_gradients_that_touch_it(reduction, row3):
    acc = sparse(reduction=reduction)
    add_rows(acc, 0, [1, 3], [[1, 1], [3, 3]])
    add_rows(acc, 0, [3, 5], [[5, 5], [7, 7]])
    indices, values, shape = Taken(acc, 2).outputs
    assert indices.tolist() == [1, 3, 5] and indices.dtype == np.int64
    assert values.tolist() == [[1, 1], [row3, row3], [7, 7]] and values.dtype == np.float32
    assert shape.tolist() == [10, 2] and shape.dtype == np.int64


def test_a_row_repeated_within_a_gradient_counts_once():
    acc = sparse()
    add_rows(acc, 0, [3, 1, 3], [[1, 1], [8, 8], [3, 3]])
    add_rows(acc, 0, [3], [[6, 6]], rank=1)
    indices, values, _ = Taken(acc, 2).outputs
    assert indices.tolist() == [1, 3] and values.tolist() == [[8, 8], [5, 5]]


@pytest.mark.parametrize("width", [1, 7])
def test_the_order_of_arrival_does_not_show_in_sparse_sums(width):
    grads = []
    for rank in range(4):
        ids = RNG.integers(0, 50, size=200)
        grads.append((ids, (RNG.normal(size=(200, width)) * 10.0**rank).astype(np.float32)))
    results = set()
    for order in itertools.permutations(range(4)):
        acc = sparse((50, width))
        for rank in order:
            acc.apply_rows(0, *grads[rank], (50, width), rank)
        results.add(b"".join(o.tobytes() for o in Taken(acc, 4).outputs))
    assert len(results) == 1
    indices, values, _ = Taken(filled(grads, width), 4).outputs
    want = np.zeros((50, width))
    firsts = [list(dict.fromkeys(ids.tolist())) for ids, _ in grads]
    for (ids, rows), first, by in zip(grads, firsts, merged(firsts)):
        over = dict(zip(first, by))
        np.add.at(want, ids, rows / np.array([over[i] for i in ids.tolist()])[:, None])
    np.testing.assert_allclose(values, want[indices], rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("reduction", ["MEAN", "SUM"])
def test_rows_that_ascend_are_averaged_and_others_as_they_meet(reduction):
    given = [([1, 4, 6], [2, 4, 6]), ([1, 6], [4, 2]), ([4], [8])]
    mean = reduction == "MEAN"
    for order, want in (
        (slice(None), {1: 3, 4: 6, 6: 4}),  # each index has its mean
        (slice(None, None, -1), {1: 6, 4: 12, 6: 4}),  # [6, 4, 1], [6, 1], [4]: only the first rows meet
    ):
        acc = sparse((10, 1), reduction)
        for rank, (ids, rows) in enumerate(given):
            add_rows(acc, 0, ids[order], rows[order], rank, (10, 1))
        indices, values, _ = Taken(acc, 3).outputs
        assert dict(zip(indices.tolist(), values.ravel().tolist())) == (want if mean else {1: 6, 4: 12, 6: 8})


def filled(grads, width):
    acc = sparse((50, width))
    for rank, (ids, rows) in enumerate(grads):
        acc.apply_rows(0, ids, rows, (50, width), rank)
    return acc


def test_vectors_and_empty_gradients():
    acc = sparse((10,))
    acc.apply_rows(0, np.zeros(0, np.int64), np.zeros(0, np.float32), (10,))
    acc.apply_rows(0, np.array([2]), grad(4), ())
    indices, values, shape = Taken(acc, 2).outputs
    assert indices.tolist() == [2] and values.tolist() == [4] and shape.tolist() == [10]
    acc.apply_rows(1, np.zeros(0, np.int64), np.zeros(0, np.float32), (10,))
    indices, values, _ = Taken(acc, 1).outputs
    assert indices.shape == (0,) and values.shape == (0,)


def test_sparse_refusals():
    acc = sparse()
    with pytest.raises(InvalidArgumentError, match=r"expected a gradient of shape \[10,2\], got \[10,3\]"):
        add_rows(acc, 0, [3], [[5, 5, 5]], shape=(10, 3))
    with pytest.raises(InvalidArgumentError, match="index 30 is not in"):
        add_rows(acc, 0, [30], [[5, 5]])
    with pytest.raises(InvalidArgumentError, match="index -1 is not in"):
        add_rows(acc, 0, [-1], [[5, 5]])
    with pytest.raises(InvalidArgumentError, match=r"indices \[k\] and values \[k"):
        acc.apply_rows(0, np.array([1, 2]), np.zeros((1, 2), np.float32), (10, 2))
    with pytest.raises(InvalidArgumentError, match=r"expected rows of shape \[2\], got \[3\]"):
        add_rows(acc, 0, [3], [[5, 5, 5]], shape=())
    assert acc.num_accumulated == 0


def test_takes_end_with_their_container():
    acc = dense()
    waiting = [Taken(acc, 2), Taken(acc, 1 + 2)]
    acc.apply(0, grad(1, 2))
    acc.close(cancel_pending=True)
    assert [(t.count, type(t.error), t.callback) for t in waiting] == [(1, CancelledError, None)] * 2
    acc.apply(0, grad(1, 2))
    assert [t.count for t in waiting] == [1, 1]


# ---------------------------------------------------------------------- several at once


class TakenTogether(Taken):
    def __init__(self, accumulators, required):
        self.error, self.outputs, self.count, self.callback = None, None, 0, None
        JointTake(accumulators, required, self.done, self)


def test_a_joint_take_waits_for_all():
    held = [dense(), sparse()]
    taken = TakenTogether(held, 1)
    held[0].apply(0, grad(1, 2))
    assert taken.count == 0 and taken.callback is not None
    add_rows(held[1], 0, [3], [1, 2])
    assert taken.count == 1 and taken.error is None and taken.callback is None
    assert [[g.tolist() for g in given] for given in taken.outputs[:1]] == [[[1, 2]]]
    assert [a.step for a in held] == [1, 1]


def test_a_cancelled_joint_take_leaves_what_it_has_not_got():
    held = [dense(), dense(), dense()]
    taken = TakenTogether(held, 1)
    held[0].apply(0, grad(1, 2))
    taken.callback(DeadlineExceededError("too slow"))
    assert taken.count == 1 and taken.error.message.count("Accumulator 'a'") == 1, "one is described, for all"
    for accumulator in held:
        accumulator.apply(1, grad(5, 6))
    assert [a.num_accumulated for a in held] == [1, 1, 1] and taken.count == 1
    assert TakenTogether(held, 1).count == 1


def test_a_joint_take_ends_with_a_container():
    held = [dense(), dense()]
    taken = TakenTogether(held, 2)
    held[1].close()
    assert taken.count == 1 and isinstance(taken.error, CancelledError)
    with pytest.raises(InvalidArgumentError, match="num_required must be 1 or more, got 0"):
        TakenTogether(held, 0)


def test_a_refused_take_is_not_said_to_be_interrupted():
    """Its step would fail with what it is told first."""
    told = []

    class Refused(Taken):
        def done(self, error, outputs):
            told.append(error)

    held = dense()
    with pytest.raises(InvalidArgumentError, match="num_required"):
        Refused(held, 0)
    with pytest.raises(InvalidArgumentError, match="num_required"):
        JointTake([held], 0, lambda error, _: told.append(error))
    assert not told and not held._takes


def test_threads_lose_no_rows_of_many_tables():
    tables, replicas, steps = 20, 3, 50
    held = [sparse() for _ in range(tables)]
    takes = [TakenTogether(held, replicas) for _ in range(steps)]
    barrier = threading.Barrier(replicas)

    def replica(rank):
        for step in range(steps):
            ids, rows = np.full(tables, rank, np.uint64), np.full(2 * tables, step, np.float32)
            at = np.arange(tables, dtype=np.uint64)
            two, one = np.full(tables, 2, np.uint64), np.full(tables, 1, np.uint64)
            parts = np.stack([two, at, one, two * at, two, at + one])
            add_parts(held, step, Together(ids, rows, parts, [(2,)] * tables), rank)
            barrier.wait()

    threads = [threading.Thread(target=replica, args=(rank,)) for rank in range(replicas)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for step, taken in enumerate(takes):
        assert taken.count == 1 and len(taken.outputs) == tables
        for contributions in taken.outputs:
            found = [(ids.tolist(), rows.tolist()) for ids, rows in contributions]
            assert found == [([rank], [[step, step]]) for rank in range(replicas)]


def test_a_gradient_that_comes_for_a_joint_take_that_has_just_failed_is_no_error(monkeypatch):
    """Its replica has nothing to do with it."""
    held = [sparse(), sparse()]
    taken, late = TakenTogether(held, 1), joint_takes.deliver

    def after_the_deadline(ready):
        taken.callback(DeadlineExceededError("too slow"))
        late(ready)

    monkeypatch.setattr(joint_takes, "deliver", after_the_deadline)
    parts = np.array([[2], [0], [1], [0], [2], [1]], np.uint64)
    add_parts(held[:1], 0, Together(np.ones(1, np.uint64), grad(1, 2), parts, [(2,)]), 0)
    assert taken.count == 1 and isinstance(taken.error, DeadlineExceededError)
    assert not held[1]._takes


@pytest.mark.parametrize("event", range(60))
def test_an_interrupted_joint_take_takes_nothing_later(event):
    held, begun = [dense(), dense(), dense()], []
    interrupted(lambda: begun.append(TakenTogether(held, 1)), event)
    assert begun or not any(a._takes for a in held)
