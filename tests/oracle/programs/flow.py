"""Queues, accumulators, summaries, checks and what orders ops."""

from __future__ import annotations

import atexit
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any

import numpy as np

from sparkflow.framework.registry import registered
from tests.oracle.cases.values import noise, ramp
from tests.oracle.compare import EXACT, ROUNDED
from tests.oracle.program import program

_QUEUE = ("QueueEnqueueV2", "QueueEnqueueManyV2", "QueueDequeueV2", "QueueDequeueManyV2", "QueueDequeueUpToV2")


@program("FIFOQueueV2", "QueueSizeV2", "QueueIsClosedV2", "QueueCloseV2", *_QUEUE, tolerance=EXACT)
def first_in_first_out(tf: Any) -> list[Any]:
    q = tf.FIFOQueue(10, [tf.float32, tf.string], [[2], []], name="q")
    x, s = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.string, [])
    xs, ss = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.string, [None])
    one, many = q.enqueue([x, s]), q.enqueue_many([xs, ss])
    texts = np.array([b"a", b"b", b"c", b"d"], object)
    some = {xs: ramp("float32", 4, 2), ss: texts}
    two, rest, single = q.dequeue_many(2), q.dequeue_up_to(5), q.dequeue()
    return [
        ([one], {x: ramp("float32", 2), s: b"first"}),
        [q.size(), q.is_closed()],
        ([many], some),
        ([many], {xs: np.zeros((0, 2), np.float32), ss: np.zeros(0, object)}),
        [q.size()],
        [*single],
        [*two],
        [q.close()],
        [q.is_closed()],
        ([one], {x: ramp("float32", 2), s: b"late"}),
        [*rest],
        [*rest],
        [*two],
        [*single],
        [q.size()],
    ]


@program("FIFOQueueV2", tolerance=EXACT)
def too_few_are_left(tf: Any) -> list[Any]:
    q = tf.FIFOQueue(5, tf.int64, shapes=[[]])
    x = tf.placeholder(tf.int64, [None])
    return [
        ([q.enqueue_many(x)], {x: ramp("int64", 3)}),
        [q.close()],
        [q.dequeue_many(4)],
        [q.size()],
        [q.dequeue_many(3)],
    ]


@program("FIFOQueueV2", tolerance=EXACT)
def mismatched_rows(tf: Any) -> list[Any]:
    q = tf.FIFOQueue(5, [tf.int64, tf.float32], shapes=[[], [2]])
    a, b = tf.placeholder(tf.int64, None), tf.placeholder(tf.float32, None)
    many = q.enqueue_many([a, b])
    return [
        ([many], {a: ramp("int64", 3), b: ramp("float32", 2, 2)}),
        ([many], {a: ramp("int64", 2), b: ramp("float32", 2, 3)}),
        [q.size()],
    ]


@program("RandomShuffleQueueV2", tolerance=ROUNDED)
def shuffled(tf: Any) -> list[Any]:
    q = tf.RandomShuffleQueue(20, 0, tf.int64, shapes=[[]], seed=3)
    x = tf.placeholder(tf.int64, [None])
    total = tf.reduce_sum(q.dequeue_many(10))
    fill = ([q.enqueue_many(x)], {x: np.arange(10)})
    return [fill, [q.size()], [total], [q.size()], fill, [q.close()], [total], [total]]


@program("PaddingFIFOQueueV2", tolerance=EXACT)
def padded(tf: Any) -> list[Any]:
    q = tf.PaddingFIFOQueue(10, [tf.float32, tf.string, tf.int64], [[None, 2], [None], []])
    x, s, k = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.string, [None]), tf.placeholder(tf.int64, [])
    xs, ss, ks = tf.placeholder(tf.float32, None), tf.placeholder(tf.string, None), tf.placeholder(tf.int64, None)
    one, many = q.enqueue([x, s, k]), q.enqueue_many([xs, ss, ks])
    texts = np.array([b"a", b"bc", b"d"], object)
    feeds = [{x: ramp("float32", n, 2), s: texts[: 3 - n], k: n} for n in (2, 0, 3, 1)]
    rows = {xs: ramp("float32", 2, 1, 2), ss: np.array([[b"x", b"y", b"z"]] * 2, object), ks: np.array([8, 9])}
    two, rest = q.dequeue_many(2), q.dequeue_up_to(9)
    return [
        *(([one], feed) for feed in feeds),
        [*two],
        ([many], rows),
        [*q.dequeue()],
        [*two],
        ([many], {**rows, xs: ramp("float32", 2, 1, 3)}),
        [q.close()],
        [*rest],
        [*rest],
    ]


@program("PriorityQueueV2", tolerance=EXACT)
def by_priority(tf: Any) -> list[Any]:
    q = tf.PriorityQueue(10, [tf.string, tf.float32], [[], [2]])
    p, s, x = tf.placeholder(tf.int64, None), tf.placeholder(tf.string, None), tf.placeholder(tf.float32, None)
    one, many = q.enqueue([p, s, x]), q.enqueue_many([p, s, x])
    texts = np.array([b"a", b"b", b"c", b"d"], object)
    return [
        ([many], {p: np.array([5, -2, 9, 1]), s: texts, x: ramp("float32", 4, 2)}),
        ([one], {p: 3, s: b"e", x: ramp("float32", 2)}),
        [*q.dequeue()],
        [*q.dequeue_many(2)],
        ([one], {p: 0, s: b"f", x: ramp("float32", 2)}),
        ([one], {p: [0], s: b"f", x: ramp("float32", 2)}),
        [q.size()],
        [*q.dequeue()],
        [q.close()],
        [*q.dequeue_up_to(2)],
        [*q.dequeue_up_to(1)],
        [*q.dequeue()],
    ]


@program("Stage", "Unstage", "StagePeek", "StageSize", "StageClear", tolerance=EXACT)
def staged(tf: Any) -> list[Any]:
    if tf.__name__.startswith("sparkflow"):
        from sparkflow.ops.staging import StagingArea
    else:
        from tensorflow.python.ops.data_flow_ops import StagingArea
    area = StagingArea([tf.float32, tf.string], [[2], []], shared_name="staged", capacity=3)
    x, s, i = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.string, []), tf.placeholder(tf.int32, [])
    put, take, look, size, clear = area.put([x, s]), area.get(), area.peek(i), area.size(), area.clear()
    return [
        *(([put], {x: ramp("float32", 2) * k, s: b"%d" % k}) for k in range(3)),
        [size],
        ([*look], {i: 2}),
        [*take],
        ([*look], {i: 0}),
        [clear],
        [size],
    ]


_BARRIER = (
    "Barrier",
    *(f"Barrier{what}" for what in ("InsertMany", "TakeMany", "Close", "ReadySize", "IncompleteSize")),
)


@program(*_BARRIER, tolerance=EXACT)
def a_barrier(tf: Any) -> list[Any]:
    raw = tf.raw_ops
    handle = raw.Barrier(component_types=[tf.float32, tf.string], shapes=[[2], []], shared_name="barrier")
    k, x, s = (
        tf.placeholder(tf.string, [None]),
        tf.placeholder(tf.float32, [None, 2]),
        tf.placeholder(tf.string, [None]),
    )
    numbers = raw.BarrierInsertMany(handle=handle, keys=k, values=x, component_index=0)
    texts = raw.BarrierInsertMany(handle=handle, keys=k, values=s, component_index=1)
    sizes = [raw.BarrierReadySize(handle=handle), raw.BarrierIncompleteSize(handle=handle)]

    def take(n: int, small: bool) -> list[Any]:
        taken = raw.BarrierTakeMany(
            handle=handle, num_elements=n, component_types=[tf.float32, tf.string], allow_small_batch=small
        )
        return [taken.indices, taken.keys, *taken.values]

    def keys(*numbers: int) -> Any:
        return np.array([b"k%d" % n for n in numbers], object)

    two, rest = take(2, False), take(9, True)
    return [
        ([numbers], {k: keys(1, 2), x: ramp("float32", 2, 2)}),
        ([numbers], {k: keys(3), x: ramp("float32", 1, 2)}),
        sizes,
        ([texts], {k: keys(3, 2), s: np.array([b"c", b"b"], object)}),
        sizes,
        two,
        ([raw.BarrierClose(handle=handle)], {}),
        ([texts], {k: keys(1), s: np.array([b"a"], object)}),
        rest,
        sizes,
    ]


_ACCUMULATOR = [  # sparkflow makes the one kind, TensorFlow the other
    prefix + op
    for prefix in ("", "Resource")
    for op in (
        "ConditionalAccumulator",
        "AccumulatorApplyGradient",
        "AccumulatorTakeGradient",
        "AccumulatorNumAccumulated",
    )
]


@program(*_ACCUMULATOR, tolerance=ROUNDED)
def accumulated(tf: Any) -> list[Any]:
    a = tf.ConditionalAccumulator(tf.float32, [2], name="a")
    x, at = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.int64, [])
    put, take = a.apply_grad(x, at), a.take_grad(2)

    def gradient(step: int, *values: float) -> Any:
        return [put], {x: np.array(values, np.float32), at: np.array(step)}

    return [
        gradient(0, 1, 2),
        [a.num_accumulated()],
        gradient(0, 3, 5),
        [a.num_accumulated()],
        [take],
        gradient(0, 100, 100),
        [a.num_accumulated()],
        gradient(1, 1, 1),
        gradient(5, 2, 3),
        gradient(1, 3, 3),
        [take],
        [a.num_accumulated()],
    ]


@program("AccumulatorSetGlobalStep", "ResourceAccumulatorSetGlobalStep", tolerance=ROUNDED)
def accumulated_sum(tf: Any) -> list[Any]:
    a = tf.ConditionalAccumulator(tf.float64, name="a", reduction_type="SUM")
    x = tf.placeholder(tf.float64, None)
    late = ([a.apply_grad(x, 1)], {x: ramp("float64", 3)})
    newer = ([a.apply_grad(x, 9)], {x: ramp("float64", 3)})
    return [late, [a.set_global_step(4)], late, [a.num_accumulated()], newer, [a.take_grad(1)], [a.set_global_step(2)]]


_SPARSE = ("SparseConditionalAccumulator", "SparseAccumulatorApplyGradient", "SparseAccumulatorTakeGradient")


@program(*_SPARSE, tolerance=ROUNDED)
def accumulated_rows(tf: Any) -> list[Any]:
    a = tf.SparseConditionalAccumulator(tf.float32, [None, 2], name="a")
    rows, values = tf.placeholder(tf.int64, [None]), tf.placeholder(tf.float32, [None, 2])
    put = a.apply_grad(rows, values, local_step=0)
    taken = a.take_grad(2)
    return [
        ([put], {rows: np.array([1, 3]), values: noise("float32", 2, 2)}),
        ([put], {rows: np.array([1, 7]), values: noise("float32", 2, 2, seed=4)}),
        [a.num_accumulated()],
        [*taken],
        [a.num_accumulated()],
        ([put], {rows: np.array([1, 3]), values: noise("float32", 2, 2)}),
        [a.num_accumulated()],
    ]


@program(*_SPARSE, tolerance=ROUNDED)
def accumulated_rows_of_any_shape(tf: Any) -> list[Any]:
    """() is what TensorFlow's SyncReplicasOptimizer says where it does not know."""
    steps: list[Any] = []
    for shape, values in (((), noise("float32", 2, 2)), ((), ramp("float32", 2)), (None, noise("float32", 2, 1, 3))):
        a = tf.SparseConditionalAccumulator(tf.float32, shape)
        put = a.apply_grad(np.array([1, 3], np.int64), values, local_step=0)
        steps += [[put], [put], [*a.take_grad(2)]]
    return steps


@program(*_SPARSE, "UnsortedSegmentSum", tolerance=ROUNDED)
def accumulated_rows_in_any_order(tf: Any) -> list[Any]:
    """What an optimizer makes of the average: rows of one index added up."""
    rng, steps = np.random.default_rng(5), list[Any]()
    drawn = [[rng.permutation(9)[:n] for n in (9, 4, 7)] for _ in range(3)]
    for given in ([[3, 1], [1, 3]], [[6, 4, 1], [6, 1], [4]], *drawn):
        a = tf.SparseConditionalAccumulator(tf.float32, [None, 2])
        for seed, ids in enumerate(given):
            rows = noise("float32", len(ids), 2, seed=seed)
            steps.append([a.apply_grad(np.array(ids, np.int64), rows, local_step=0)])
        average = a.take_indexed_slices_grad(len(given))
        steps.append([tf.unsorted_segment_sum(average.values, average.indices, 9)])
    return steps


@program("ScalarSummary", "HistogramSummary", "MergeSummary", tolerance=EXACT)
def summaries(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, None)
    number = tf.placeholder(tf.float32, [])
    one = tf.summary.scalar("loss", number)
    spread = tf.summary.histogram("weights", x)
    both = tf.summary.merge([one, spread])
    steps: list[Any] = []
    for values in (
        ramp("float32", 50),
        np.zeros(3, np.float32),
        np.array([-2, 0, 1 << 30], np.float32),
        ramp("float32", 0),
    ):
        feed = {x: values, number: np.float32(len(values) / 7)}
        steps += [([one], feed), ([spread], feed), ([both], feed)]
    nan = {x: np.array([1, np.nan], np.float32), number: np.float32(np.nan)}
    return [*steps, ([one], nan), ([spread], nan)]


@program("AudioSummaryV2", "TensorSummaryV2", tolerance=EXACT)
def summaries_of_media(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [None, None])
    sound, one = tf.summary.audio("a", x, 8000.0), tf.summary.audio("b", x, tf.constant(44100.0), max_outputs=1)
    words = tf.summary.text("said", tf.constant(["a", "b"]))
    return [([sound, one], {x: ramp("float32", 2, 40) / 30}), [words]]


@program("MergeSummary", tolerance=EXACT)
def equal_tags(tf: Any) -> list[Any]:
    with tf.name_scope("a"):
        first = tf.summary.scalar("loss", 1.0)
    return [[tf.summary.merge([first, tf.identity(first)])]]


_NO_COND = "" if "Switch" in registered() else "TensorFlow puts an assertion's failure into a cond"


@program("Assert", "NoOp", tolerance=EXACT, one_way=_NO_COND)
def checks(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [])
    check = tf.Assert(x > 0, [x, tf.constant("was not positive")])
    with tf.control_dependencies([check]):
        y = tf.sqrt(x)
    good, bad = {x: np.array(4, np.float32)}, {x: np.array(-4, np.float32)}
    return [([y], good), ([y], bad), ([check], good), ([tf.group(check, y)], bad), ([tf.no_op()], bad)]


@program("ReadFile", "WriteFile", "MatchingFiles", tolerance=EXACT)
def files(tf: Any) -> list[Any]:
    folder = mkdtemp(prefix="oracle")
    atexit.register(rmtree, folder, ignore_errors=True)
    path = folder.encode()
    here, text = tf.placeholder(tf.string, []), tf.placeholder(tf.string, [])
    write, read, found = tf.write_file(here, text), tf.read_file(here), tf.matching_files(path + b"/*.txt")
    a = {here: path + b"/a.txt", text: b"some\0text"}
    return [([read], {here: path + b"/none"}), ([write], a), ([read], {here: path + b"/a.txt"}), [tf.size(found)]]


@program("Print", tolerance=EXACT)
def printed(tf: Any) -> list[Any]:
    x = tf.constant([1.0, 2.0])
    y = tf.Print(x, [x, tf.constant("text")], "said: ", first_n=1)
    return [[y * 2], tf.gradients(y * 3.0, x)]


@program("Placeholder", "PlaceholderV2", tolerance=EXACT)
def fed(tf: Any) -> list[Any]:
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = x + 1
    return [
        [y],
        ([y], {x: ramp("float32", 3, 2)}),
        ([y * 2], {y: ramp("float32", 1, 2)}),
        ([y], {x: ramp("float32", 3)}),
    ]


@program("Variable", tolerance=EXACT)
def unfed_variable(tf: Any) -> list[Any]:
    v = tf.Variable([1.0, 2.0])
    with tf.control_dependencies([tf.assign(v, [3.0, 4.0])]):
        after = v.read_value() * 2
    return [[after], [v], [v.initializer], [v + 0]]
