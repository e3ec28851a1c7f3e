"""Queues: order, waiting, closing, cancelling, and nothing lost between many threads."""

import threading
from itertools import pairwise

import numpy as np
import pytest

import sparkflow_runtime.kernels.table  # noqa: F401  (fills the kernel table)
from sparkflow_runtime.kernels import registry
from sparkflow_runtime.kernels.registry import Node
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.queue_elements import QueueSpec
from sparkflow_runtime.resources.queues import Queue
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.attrs import Shape
from sparkflow_runtime.wire.errors import CancelledError, DeadlineExceededError, InvalidArgumentError, OutOfRangeError


class Call:
    """One operation under way: its error and outputs once it is done, and the step it runs in."""

    def __init__(self):
        self.count, self.error, self.outputs = 0, None, None
        self.event, self.lock = threading.Event(), threading.Lock()
        self.callbacks, self.cancelled = {}, None

    def done(self, error, outputs):
        self.count, self.error, self.outputs = self.count + 1, error, outputs
        self.event.set()

    def on_cancel(self, callback, describe=None):
        with self.lock:
            if self.cancelled is None:
                self.callbacks[id(callback)] = callback
                return id(callback)
        callback(self.cancelled)
        return 0

    def off_cancel(self, token):
        with self.lock:
            self.callbacks.pop(token, None)

    def cancel(self, error):
        with self.lock:
            self.cancelled, callbacks, self.callbacks = error, list(self.callbacks.values()), {}
        for callback in callbacks:
            callback(error)

    @property
    def finished(self):
        return self.count > 0

    def result(self, timeout_s=10):
        assert self.event.wait(timeout_s), "the operation did not end"
        if self.error is not None:
            raise self.error
        return self.outputs


def fifo(capacity=-1, types=("int64",), shapes=((),)):
    return Queue("q", QueueSpec("FIFOQueue", tuple(dtypes.ALL[t] for t in types), shapes, capacity))


def shuffling(capacity=-1, floor=0, seeds=(1, 2), types=("int64",), shapes=((),)):
    kinds = tuple(dtypes.ALL[t] for t in types)
    return Queue("q", QueueSpec("RandomShuffleQueue", kinds, shapes, capacity, floor, seeds))


def put(queue, *values):
    call = Call()
    queue.enqueue_many([np.array(values, np.int64)], call.done, call)
    return call


def get(queue, n=None, up_to=False):
    call = Call()
    if n is None:
        queue.dequeue(call.done, call)
    else:
        queue.dequeue_many(n, call.done, call, up_to)
    return call


def close(queue, cancel_pending=False):
    call = Call()
    queue.close(cancel_pending, call.done, call)
    return call


def rows(call):
    return list(np.atleast_1d(call.result()[0]))


# ---------------------------------------------------------------------- order and pieces


def test_fifo_keeps_order_across_blocks():
    queue = fifo()
    put(queue, 0, 1, 2), put(queue, 3), put(queue, 4, 5)
    assert rows(get(queue, 2)) == [0, 1]
    assert rows(get(queue, 3)) == [2, 3, 4]
    assert rows(get(queue)) == [5]
    assert queue.size == 0


def test_a_whole_block_is_handed_over_without_a_copy():
    queue = fifo()
    block = np.arange(5)
    call = Call()
    queue.enqueue_many([block], call.done)
    first, second = get(queue, 2).result()[0], get(queue, 3).result()[0]
    assert first.base is second.base is not None
    assert first.base is not block


@pytest.mark.parametrize("make", [fifo, shuffling])
def test_later_changes_of_the_enqueued_array_are_not_seen(make):
    queue = make(capacity=2)
    array = np.arange(4)
    call = Call()
    queue.enqueue_many([array], call.done, call)  # half of it has to wait
    array[:] = -1
    assert sorted(rows(get(queue, 2)) + rows(get(queue, 2))) == [0, 1, 2, 3]
    assert call.result() == ()


def test_an_enqueue_larger_than_the_queue_proceeds_in_pieces():
    queue = fifo(capacity=3)
    call = put(queue, *range(8))
    assert not call.finished and queue.size == 3
    assert rows(get(queue, 2)) == [0, 1]
    assert queue.size == 3
    assert rows(get(queue, 3)) == [2, 3, 4]
    assert call.finished and call.count == 1
    assert rows(get(queue, 3)) == [5, 6, 7]


def test_a_dequeue_larger_than_the_queue_collects_in_pieces():
    queue = fifo(capacity=2)
    call = get(queue, 5)
    for i in range(5):
        assert put(queue, i).finished
    assert rows(call) == [0, 1, 2, 3, 4]


def test_dequeues_are_served_in_their_order():
    queue = fifo()
    large, small = get(queue, 3), get(queue)
    put(queue, 0, 1)
    assert not small.finished
    put(queue, 2, 3)
    assert rows(large) == [0, 1, 2] and rows(small) == [3]


def test_taking_no_rows_never_waits():
    queue = fifo(types=("float32",), shapes=((2, 3),))
    assert get(queue, 0).result()[0].shape == (0, 2, 3)
    assert get(queue, 0).result()[0].dtype == np.float32
    close(queue)
    assert get(queue, 0, up_to=True).result()[0].shape == (0, 2, 3)


@pytest.mark.parametrize("make", [fifo, shuffling])
def test_no_rows_go_past_those_that_wait(make):
    """As in TensorFlow; a chief that begins anew drops no tokens, say, while replicas wait for some."""
    queue = make(capacity=1)
    waits = get(queue)
    assert [len(get(queue, 0, up_to).result()[0]) for up_to in (False, True)] == [0, 0]
    assert len(queue.try_dequeue_many(0)[0]) == 0 and not waits.finished
    assert put(queue, 1).finished and rows(waits) == [1]
    put(queue, 2)
    full = put(queue, 3)
    assert put(queue).finished and queue.try_enqueue_many([np.zeros(0, np.int64)]) == () and not full.finished
    assert rows(get(queue)) == [2] and full.finished


def test_components_stay_together():
    queue = shuffling(types=("float32", "string"), shapes=((2,), ()))
    call = Call()
    text = np.array([str(i).encode() for i in range(50)], object)
    queue.enqueue_many([np.repeat(np.arange(50, dtype=np.float32)[:, None], 2, 1), text], call.done)
    numbers, names = get(queue, 40).result()
    assert numbers.shape == (40, 2) and [b"%d" % n for n in numbers[:, 0]] == list(names)
    number, name = get(queue).result()
    assert number.shape == (2,) and name.shape == () and name.item() == b"%d" % number[0]


@pytest.mark.parametrize("make", [fifo, shuffling])
def test_elements_of_any_shape(make):
    queue = make(shapes=None)
    for value in ([1, 2], [3]):
        call = Call()
        queue.enqueue([np.array(value)], call.done)
    got = sorted(get(queue).result()[0].tolist() for _ in range(2))
    assert got == [[1, 2], [3]]
    with pytest.raises(InvalidArgumentError, match="specified shapes"):
        get(queue, 2)


# ---------------------------------------------------------------------- shuffling


def test_shuffle_gives_every_row_once_and_repeats_with_its_seed():
    def run(seeds):
        queue, out = shuffling(capacity=64, floor=16, seeds=seeds), []
        for start in range(0, 320, 8):
            put(queue, *range(start, start + 8))
            if start >= 48:
                out += rows(get(queue, 8))
        close(queue)
        return out + rows(get(queue, 320, up_to=True))

    a, b, c = run((1, 2)), run((1, 2)), run((1, 3))
    assert sorted(a) == list(range(320)) and a != sorted(a)
    assert a == b != c


def test_shuffle_keeps_its_floor_until_it_is_closed():
    queue = shuffling(floor=3)
    put(queue, *range(4))
    first, second = get(queue), get(queue)
    assert first.finished and not second.finished
    close(queue)
    assert second.finished
    assert sorted(rows(first) + rows(second) + rows(get(queue, 2))) == [0, 1, 2, 3]


def test_shuffle_picks_every_row_equally_often():
    counts = np.zeros(8)
    queue = shuffling()
    put(queue, *range(8))
    for _ in range(4000):
        picked = get(queue, 3).result()[0]
        counts[picked] += 1
        put(queue, *picked)
    assert np.abs(counts - 1500).max() < 6 * np.sqrt(4000 * 3 / 8 * 5 / 8)


def test_shuffle_closes_holes_between_takes():
    queue = shuffling()
    put(queue, *range(100))
    out = [r for n in (30, 1, 40, 5) for r in rows(get(queue, n))]
    put(queue, *range(100, 110))
    out += rows(get(queue, 34))
    assert sorted(out) == list(range(110))


def test_a_floor_at_the_capacity_is_refused():
    with pytest.raises(InvalidArgumentError, match="min_after_dequeue 3 must be less than its capacity 3"):
        shuffling(capacity=3, floor=3)


# ---------------------------------------------------------------------- padding, priorities


def padding(capacity=-1, types=("int64",), shapes=((None,),)):
    return Queue("q", QueueSpec("PaddingFIFOQueue", tuple(dtypes.ALL[t] for t in types), shapes, capacity))


def enqueue(queue, *components):
    call = Call()
    queue.enqueue([np.asarray(c) for c in components], call.done, call)
    return call


def test_elements_are_padded_to_the_largest_of_their_batch():
    queue = padding(types=("int64", "string"), shapes=((None, 2), (None,)))
    for n in (1, 3, 0, 2):
        enqueue(queue, np.full((n, 2), n), np.array([b"s"] * n, object))
    numbers, texts = get(queue, 3).result()
    assert numbers.shape == (3, 3, 2) and numbers[:, :, 0].tolist() == [[1, 0, 0], [3, 3, 3], [0, 0, 0]]
    assert texts.tolist() == [[b"s", b"", b""], [b"s"] * 3, [b""] * 3]
    assert get(queue).result()[0].tolist() == [[2, 2]] * 2
    assert get(queue, 0).result()[0].shape == (0, 0, 2)


def test_a_padded_batch_may_come_in_pieces():
    queue = padding(capacity=2)
    call = get(queue, 3)
    for values in ([1], [2, 2], [3, 3, 3]):
        enqueue(queue, np.array(values))
    assert call.result()[0].tolist() == [[1, 0, 0], [2, 2, 0], [3, 3, 3]]


def test_padding_does_not_hide_a_wrong_shape():
    queue = padding(shapes=((None, 2),))
    for wrong in (np.zeros((3, 3), np.int64), np.zeros(2, np.int64)):
        with pytest.raises(InvalidArgumentError, match=r"shape \(None, 2\), but the one to enqueue has"):
            enqueue(queue, wrong)


def test_the_smallest_priority_comes_first():
    kinds = (dtypes.int64, dtypes.string)
    queue = Queue("q", QueueSpec("PriorityQueue", kinds, ((), ()), 5))
    call = Call()
    queue.enqueue_many([np.array([5, -1, 3, 3]), np.array([b"a", b"b", b"c", b"d"], object)], call.done)
    waiting = [enqueue(queue, np.int64(2), np.array(b"e", object)), enqueue(queue, np.int64(0), np.array(b"f", object))]
    assert waiting[0].finished and not waiting[1].finished
    assert [c.tolist() for c in get(queue, 2).result()] == [[-1, 2], [b"b", b"e"]]
    assert waiting[1].finished
    priorities, names = get(queue, 4).result()
    assert priorities.tolist() == [0, 3, 3, 5] and names.tolist() == [b"f", b"c", b"d", b"a"]


def test_a_cancelled_dequeue_gives_priorities_back_in_their_place():
    queue = Queue("q", QueueSpec("PriorityQueue", (dtypes.int64, dtypes.int64), ((), ()), 2))
    for i in range(2):
        enqueue(queue, np.int64(1), np.int64(i))
    waiting = get(queue, 3)
    enqueue(queue, np.int64(1), np.int64(2)), enqueue(queue, np.int64(1), np.int64(3))
    assert waiting.finished and rows(waiting) == [1, 1, 1]
    waiting = get(queue, 4)
    waiting.cancel(CancelledError("enough"))
    assert get(queue).result()[1] == 3


def test_a_closed_queue_of_priorities_gives_all_or_nothing():
    queue = Queue("q", QueueSpec("PriorityQueue", (dtypes.int64,), ((),), -1))
    enqueue(queue, np.int64(2))
    close(queue)
    with pytest.raises(OutOfRangeError, match=r"insufficient elements \(requested 2, current size 1\)"):
        get(queue, 2, up_to=True).result()
    assert rows(get(queue, 1, up_to=True)) == [2]


def test_priorities_of_elements_of_any_shape():
    queue = Queue("q", QueueSpec("PriorityQueue", (dtypes.int64, dtypes.float32), None, -1))
    enqueue(queue, np.int64(2), np.float32([1, 2]))
    enqueue(queue, np.int64(1), np.float32(3))
    assert [c.tolist() for c in get(queue).result()] == [1, 3.0]
    assert [c.tolist() for c in get(queue).result()] == [2, [1.0, 2.0]]


# ---------------------------------------------------------------------- closing


def test_closed_queue_drains_and_then_ends():
    queue = fifo()
    put(queue, 0, 1, 2)
    close(queue).result()
    assert queue.closed
    with pytest.raises(CancelledError, match="FIFOQueue 'q' is closed"):
        put(queue, 9).result()
    assert put(queue).result() == ()
    with pytest.raises(OutOfRangeError, match=r"insufficient elements \(requested 5, current size 3\)"):
        get(queue, 5).result()
    assert rows(get(queue, 5, up_to=True)) == [0, 1, 2]
    with pytest.raises(OutOfRangeError, match=r"requested 1, current size 0"):
        get(queue).result()
    with pytest.raises(OutOfRangeError):
        get(queue, 5, up_to=True).result()
    with pytest.raises(CancelledError, match="already closed"):
        close(queue).result()
    close(queue, cancel_pending=True).result()


def test_close_ends_waiting_dequeues():
    queue = fifo(capacity=2)
    put(queue, 0)
    calls = [get(queue, 5), get(queue), get(queue)]
    close(queue)
    with pytest.raises(OutOfRangeError, match="requested 5, current size 1"):
        calls[0].result()
    assert rows(calls[1]) == [0]
    with pytest.raises(OutOfRangeError):
        calls[2].result()


def test_close_waits_for_the_enqueues_before_it_and_refuses_those_after():
    queue = fifo(capacity=1)
    put(queue, 0)
    before, closing, after = put(queue, 1), close(queue), put(queue, 2)
    assert not queue.closed and not closing.finished
    assert rows(get(queue)) == [0]
    assert before.result() == () and closing.result() == () and queue.closed
    with pytest.raises(CancelledError):
        after.result()
    assert rows(get(queue)) == [1]


def test_close_can_cancel_waiting_enqueues():
    queue = fifo(capacity=1)
    put(queue, 0)
    waiting = [put(queue, 1, 2), close(queue)]
    close(queue, cancel_pending=True).result()
    with pytest.raises(CancelledError, match="FIFOQueue 'q': the enqueue was cancelled"):
        waiting[0].result()
    assert waiting[1].result() == ()
    assert rows(get(queue)) == [0]


# ---------------------------------------------------------------------- cancelling


def test_a_cancelled_dequeue_takes_nothing_and_lets_the_next_one_through():
    queue = fifo()
    put(queue, 0)
    waiting, next_one = get(queue, 2), get(queue)
    waiting.cancel(CancelledError("step 7 ended"))
    with pytest.raises(CancelledError, match="step 7 ended"):
        waiting.result()
    assert rows(next_one) == [0]
    assert waiting.count == 1 and not waiting.callbacks and not next_one.callbacks


@pytest.mark.parametrize("make", [fifo, shuffling])
def test_a_cancelled_dequeue_gives_back_what_it_collected(make):
    queue = make(capacity=3)
    put(queue, 0, 1)
    waiting = get(queue, 10)
    put(queue, 2, 3)
    assert queue.size == 0
    waiting.cancel(CancelledError("enough"))
    assert sorted(rows(get(queue, 3)) + rows(get(queue))) == [0, 1, 2, 3]


def test_a_cancelled_enqueue_leaves_its_line():
    queue = fifo(capacity=2)
    first, second = put(queue, 0, 1, 2, 3), put(queue, 4)
    first.cancel(CancelledError("enough"))
    assert rows(get(queue, 2)) == [0, 1]
    assert second.finished and rows(get(queue)) == [4]


def test_an_operation_of_a_cancelled_step_does_not_wait():
    queue, call = fifo(), Call()
    call.cancel(CancelledError("over"))
    queue.dequeue(call.done, call)
    with pytest.raises(CancelledError, match="over"):
        call.result(0)
    put(queue, 1)
    assert queue.size == 1


def test_a_deadline_says_which_queue_and_how_full():
    queue = shuffling(capacity=10, floor=2)
    put(queue, 1)
    call = get(queue, 4)
    call.cancel(DeadlineExceededError("Step 3: not done in 2 s"))
    with pytest.raises(
        DeadlineExceededError,
        match=r"Step 3: .* RandomShuffleQueue 'q' is open: size 1, capacity 10, min_after_dequeue 2, "
        r"0 enqueues and 1 dequeues",
    ):
        call.result()


# ---------------------------------------------------------------------- refusals


def test_shapes_and_dtypes_are_checked():
    queue, call = fifo(types=("float32", "int64"), shapes=((2,), ())), Call()
    with pytest.raises(InvalidArgumentError, match=r"component 0 .* has shape \(2,\), but .* has shape \(3,\)"):
        queue.enqueue([np.zeros(3, np.float32), np.int64(1)], call.done)
    with pytest.raises(InvalidArgumentError, match="component 1 must be int64, got int32"):
        queue.enqueue([np.zeros(2, np.float32), np.int32(1)], call.done)
    with pytest.raises(InvalidArgumentError, match="component 1 has shape"):
        queue.enqueue_many([np.zeros((3, 2), np.float32), np.zeros(4, np.int64)], call.done)
    with pytest.raises(InvalidArgumentError, match="holds 2 components"):
        queue.enqueue([np.zeros(2, np.float32)], call.done)
    with pytest.raises(InvalidArgumentError, match="cannot dequeue -1"):
        queue.dequeue_many(-1, call.done)
    assert not call.finished and queue.size == 0


# ---------------------------------------------------------------------- at once


def test_what_need_not_wait_is_done_at_once():
    queue = fifo(capacity=3, types=("int64", "string"), shapes=((2,), ()))
    row = [np.array([1, 2]), np.array(b"a", object)]
    assert queue.try_enqueue(row) == ()
    assert queue.try_enqueue_many([np.array([[3, 4], [5, 6]]), np.array([b"b", b"c"], object)]) == ()
    assert queue.try_enqueue(row) is None and queue.size == 3
    assert [v.tolist() for v in queue.try_dequeue()] == [[1, 2], b"a"]
    assert [v.tolist() for v in queue.try_dequeue_many(2)] == [[[3, 4], [5, 6]], [b"b", b"c"]]
    assert queue.try_dequeue() is None and queue.try_dequeue_many(1) is None
    assert queue.try_dequeue_many(0)[0].shape == (0, 2)


def test_nothing_is_done_at_once_past_one_who_waits():
    queue = fifo(capacity=3)
    waiting = get(queue, 2)
    assert queue.try_enqueue_many([np.arange(1)]) == () and not waiting.finished
    assert queue.try_dequeue() is None
    assert queue.try_enqueue_many([np.arange(1, 3)]) == () and rows(waiting) == [0, 1]
    pushing = put(queue, 3, 4, 5)
    assert not pushing.finished and queue.try_enqueue_many([np.arange(1)]) is None
    assert queue.try_dequeue()[0] == 2
    assert pushing.finished and queue.size == 3


def test_an_attempt_keeps_the_floor_and_leaves_ends_to_the_line():
    queue = shuffling(floor=2)
    put(queue, 0, 1, 2)
    assert queue.try_dequeue_many(2) is None and len(queue.try_dequeue()) == 1
    close(queue)
    assert queue.try_enqueue_many([np.arange(1)]) is None
    assert queue.try_dequeue_many(3) is None
    assert len(queue.try_dequeue_many(2)[0]) == 2


def test_attempts_are_refused_what_operations_are():
    queue = fifo(types=("float32",), shapes=((2,),))
    with pytest.raises(InvalidArgumentError, match=r"has shape \(2,\), but .* has shape \(3,\)"):
        queue.try_enqueue([np.zeros(3, np.float32)])
    with pytest.raises(InvalidArgumentError, match="cannot dequeue -1"):
        queue.try_dequeue_many(-1)


# ---------------------------------------------------------------------- threads


@pytest.mark.parametrize("make", [lambda: fifo(capacity=37), lambda: shuffling(capacity=37, floor=5)])
def test_many_threads_lose_and_double_nothing(make):
    queue, per_thread, taken = make(), 600, []

    def produce(start):
        done = 0
        while done < per_thread:
            n = min(1 + (start + done) % 50, per_thread - done)
            put(queue, *range(start + done, start + done + n)).result()
            done += n

    def consume(n):
        mine = []
        taken.append(mine)
        while True:
            try:
                mine += rows(get(queue, n, up_to=True))
            except OutOfRangeError:
                return

    def disturb():
        while not queue.closed:
            call = get(queue, 500)
            call.cancel(CancelledError("changed my mind"))
            try:
                taken.append(rows(call))
            except (CancelledError, OutOfRangeError):
                continue

    producers = [threading.Thread(target=produce, args=(k * per_thread,)) for k in range(4)]
    consumers = [threading.Thread(target=consume, args=(n,)) for n in (1, 7, 45)] + [threading.Thread(target=disturb)]
    for thread in producers + consumers:
        thread.start()
    for thread in producers:
        thread.join()
    close(queue).result()
    for thread in consumers:
        thread.join()
    assert sorted(v for mine in taken for v in mine) == list(range(4 * per_thread))


def test_one_consumer_sees_each_producer_in_order():
    queue, seen = fifo(capacity=16), []

    def produce(start):
        for i in range(200):
            put(queue, start + i).result()

    threads = [threading.Thread(target=produce, args=(k * 1000,)) for k in range(3)]
    for thread in threads:
        thread.start()
    while len(seen) < 600:
        seen += rows(get(queue, 6))
    for thread in threads:
        thread.join()
    for k in range(3):
        own = [v for v in seen if v // 1000 == k]
        assert all(a < b for a, b in pairwise(own))


# ---------------------------------------------------------------------- kernels


def make_node(op, resources, **attrs):
    return Node(name=attrs.pop("name", "n"), op=op, attrs=attrs, device="/device:CPU:0", xp=np, resources=resources)


def declare(resources, op="FIFOQueueV2", **changes):
    attrs = {"component_types": [dtypes.int64], "shapes": [Shape(())], "capacity": 5, "shared_name": "s", **changes}
    return registry.find(op, "CPU").factory(make_node(op, resources, **attrs))()


def test_kernels_share_a_queue_by_name():
    resources = ResourceManager()
    queue = declare(resources, name="a")
    assert declare(resources, name="b") is queue
    run = registry.find("QueueEnqueueManyV2", "CPU").factory(make_node("QueueEnqueueManyV2", resources))
    call = Call()
    run(call, call.done, queue, np.arange(3))
    size = registry.find("QueueSizeV2", "CPU").factory(make_node("QueueSizeV2", resources))
    assert size(queue) == 3 and size(queue).dtype == np.int32
    take = registry.find("QueueDequeueUpToV2", "CPU").factory(make_node("QueueDequeueUpToV2", resources))
    closing = make_node("QueueCloseV2", resources, cancel_pending_enqueues=True)
    shut = registry.find("QueueCloseV2", "CPU").factory(closing)
    shut(call, call.done, queue)
    call = Call()
    take(call, call.done, queue, np.int32(4))
    assert rows(call) == [0, 1, 2]


@pytest.mark.parametrize(
    "changes, what",
    [
        ({"capacity": 6}, "capacity 5"),
        ({"component_types": [dtypes.float32]}, "types"),
        ({"shapes": [Shape((2,))]}, "shapes"),
        ({"op": "RandomShuffleQueueV2"}, "kind FIFOQueue"),
    ],
)
def test_a_name_held_by_another_queue_is_refused(changes, what):
    resources = ResourceManager()
    declare(resources)
    with pytest.raises(InvalidArgumentError, match=f"Queue 's' is held on this task with {what}"):
        declare(resources, **changes)


def test_clearing_a_container_ends_its_waiters():
    resources = ResourceManager()
    call = get(declare(resources))
    resources.clear()
    with pytest.raises(OutOfRangeError):
        call.result()
