"""Wrong programs: what each does, which error TensorFlow raises for it, and what the message must say.

`WRONG` has rows (name, program of tf, class, patterns): "ValueError" and "TypeError" are raised while the graph is
built, the classes of tf.errors when it runs. test_wrong_programs.py runs them here, tests/oracle in both libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Row = tuple[str, Callable[[Any], Any], str, tuple[str, ...]]
WRONG: list[Row] = []


def wrong(error: str, *patterns: str) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    def add(program: Callable[[Any], Any]) -> Callable[[Any], Any]:
        WRONG.append((program.__name__, program, error, patterns))
        return program

    return add


def run(tf: Any, fetches: Any, feeds: Any = None, initialize: bool = True) -> Any:
    with tf.Session() as session:
        if initialize:
            session.run(tf.global_variables_initializer())
        return session.run(fetches, feeds)


def fed(tf: Any, *shape: int | None, dtype: str = "float32") -> Any:
    return tf.placeholder(tf.as_dtype(dtype), shape, name="x")


# ---------------------------------------------------------------------- while the graph is built: shapes


@wrong("ValueError", r"2.*3|3.*2", r"MatMul|matmul")
def matmul_inner(tf: Any) -> Any:
    return tf.matmul(tf.zeros([4, 2]), tf.zeros([3, 5]))


@wrong("ValueError", r"rank|Shape")
def matmul_vector(tf: Any) -> Any:
    return tf.matmul(tf.zeros([4]), tf.zeros([4, 5]))


@wrong("ValueError", "2", "3")
def add_shapes(tf: Any) -> Any:
    return tf.zeros([2]) + tf.zeros([3])


@wrong("ValueError", "5", "4")
def conv_channels(tf: Any) -> Any:
    return tf.nn.conv2d(tf.zeros([1, 8, 8, 5]), tf.zeros([3, 3, 4, 2]), [1, 1, 1, 1], "SAME")


@wrong("ValueError")
def conv_negative_size(tf: Any) -> Any:
    return tf.nn.conv2d(tf.zeros([1, 2, 2, 3]), tf.zeros([5, 5, 3, 2]), [1, 1, 1, 1], "VALID")


@wrong("ValueError", "SIDEWAYS")
def conv_padding(tf: Any) -> Any:
    return tf.nn.conv2d(tf.zeros([1, 8, 8, 3]), tf.zeros([3, 3, 3, 2]), [1, 1, 1, 1], "SIDEWAYS")


@wrong("ValueError")
def pool_rank(tf: Any) -> Any:
    return tf.nn.max_pool(tf.zeros([8, 8, 3]), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")


@wrong("ValueError", "3", "4")
def concat_shapes(tf: Any) -> Any:
    return tf.concat([tf.zeros([2, 3]), tf.zeros([2, 4])], 0)


@wrong("ValueError")
def concat_axis(tf: Any) -> Any:
    return tf.concat([tf.zeros([2, 3]), tf.zeros([2, 3])], 2)


@wrong("ValueError", "6", "4|7")
def reshape_size(tf: Any) -> Any:
    return tf.reshape(tf.zeros([2, 3]), [4])


@wrong("ValueError")
def stack_shapes(tf: Any) -> Any:
    return tf.stack([tf.zeros([2]), tf.zeros([3])])


@wrong("ValueError")
def split_uneven(tf: Any) -> Any:
    return tf.split(tf.zeros([5, 2]), 2, 0)


@wrong("ValueError")
def squeeze_size(tf: Any) -> Any:
    return tf.squeeze(tf.zeros([2, 3]), [0])


@wrong("ValueError")
def transpose_perm(tf: Any) -> Any:
    return tf.transpose(tf.zeros([2, 3]), [0, 1, 2])


@wrong("ValueError")
def bias_size(tf: Any) -> Any:
    return tf.nn.bias_add(tf.zeros([2, 3]), tf.zeros([4]))


@wrong("ValueError")
def reduce_axis(tf: Any) -> Any:
    return tf.reduce_sum(tf.zeros([2, 3]), 5)


@wrong("ValueError")
def softmax_xent_shapes(tf: Any) -> Any:
    logits, labels = tf.zeros([2, 3]), tf.zeros([2, 4])
    return tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)


@wrong("ValueError")
def sparse_xent_rank(tf: Any) -> Any:
    labels = tf.zeros([2, 3], tf.int32)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.zeros([2, 3]))


@wrong("ValueError")
def select_shapes(tf: Any) -> Any:
    return tf.where(tf.constant([True, False, True]), tf.zeros([2]), tf.zeros([2]))


@wrong("ValueError")
def expand_dims_axis(tf: Any) -> Any:
    return tf.expand_dims(tf.zeros([2]), 4)


@wrong("InvalidArgumentError")
def slice_too_far(tf: Any) -> Any:
    return run(tf, tf.slice(tf.zeros([2, 3]), [0, 2], [2, 2]))


@wrong("ValueError")
def index_too_far(tf: Any) -> Any:
    return tf.zeros([2, 3])[5]


@wrong("ValueError")
def assign_shape(tf: Any) -> Any:
    return tf.assign(tf.Variable(tf.zeros([2])), tf.zeros([3]))


@wrong("ValueError", "2", "3")
def set_shape_against(tf: Any) -> Any:
    return tf.zeros([2]).set_shape([3])


@wrong("ValueError", "last")
def dense_open_size(tf: Any) -> Any:
    return tf.layers.dense(tf.placeholder(tf.float32, [None, None]), 3)


@wrong("InvalidArgumentError")
def one_hot_axis(tf: Any) -> Any:
    return run(tf, tf.one_hot([1, 2], 3, axis=4))


@wrong("ValueError")
def gather_scalar(tf: Any) -> Any:
    return tf.gather(tf.constant(1.0), [0])


@wrong("ValueError")
def loop_invariant(tf: Any) -> Any:
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), [0, tf.zeros([2])])


@wrong("ValueError")
def loop_structure(tf: Any) -> Any:
    return tf.while_loop(lambda i, x: i < 3, lambda i, x: i + 1, [0, 1])


@wrong("ValueError")
def eye_matmul_batch(tf: Any) -> Any:
    return tf.matmul(tf.zeros([2, 3, 4]), tf.zeros([3, 4, 5]))


@wrong("ValueError")
def top_k_too_many(tf: Any) -> Any:
    return tf.nn.top_k(tf.zeros([2, 3]), 5)


# ---------------------------------------------------------------------- while the graph is built: types and names


@wrong("TypeError", "int32", "float32")
def add_types(tf: Any) -> Any:
    return tf.constant(1.0) + tf.constant(1)


@wrong("TypeError", "float64", "float32")
def matmul_types(tf: Any) -> Any:
    return tf.matmul(tf.zeros([2, 2]), tf.zeros([2, 2], tf.float64))


@wrong("TypeError")
def string_plus_float(tf: Any) -> Any:
    return tf.constant("a") + tf.constant(1.0)


@wrong("TypeError", "string", "float32")
def relu_of_strings(tf: Any) -> Any:
    return tf.nn.relu(tf.constant("a"))


@wrong("TypeError")
def float_shape(tf: Any) -> Any:
    return tf.reshape(tf.zeros([4]), [2.0, 2.0])


@wrong("TypeError")
def float_index(tf: Any) -> Any:
    return tf.gather(tf.zeros([4]), [1.5])


@wrong("TypeError", "int32", "float32")
def exp_of_integers(tf: Any) -> Any:
    return tf.exp(tf.constant([1]))


@wrong("TypeError")
def argmax_of_text(tf: Any) -> Any:
    return tf.argmax(tf.constant(["a"]), 0)


@wrong("TypeError")
def labels_of_floats(tf: Any) -> Any:
    labels = tf.zeros([2])
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.zeros([2, 3]))


@wrong("TypeError")
def conv_of_integers(tf: Any) -> Any:
    return tf.nn.conv2d(tf.zeros([1, 4, 4, 1], tf.int64), tf.zeros([1, 1, 1, 1], tf.int64), [1, 1, 1, 1], "SAME")


@wrong("TypeError", "truth value|bool")
def python_if(tf: Any) -> Any:
    return 1 if tf.constant(True) else 2


@wrong("TypeError")
def python_loop(tf: Any) -> Any:
    return list(tf.placeholder(tf.float32, [None]))


@wrong("ValueError")
def none_tensor(tf: Any) -> Any:
    return tf.identity(None)


@wrong("ValueError")
def convert_dtype(tf: Any) -> Any:
    return tf.convert_to_tensor(tf.constant(1.0), tf.int32)


@wrong("TypeError")
def constant_float_as_int(tf: Any) -> Any:
    return tf.constant(1.5, tf.int32)


@wrong("ValueError")
def ragged_constant(tf: Any) -> Any:
    return tf.constant([[1, 2], [3]])


@wrong("ValueError")
def bad_name(tf: Any) -> Any:
    return tf.constant(1.0, name="a b")


@wrong("ValueError", "already exists")
def variable_twice(tf: Any) -> Any:
    tf.get_variable("v", [2])
    return tf.get_variable("v", [2])


@wrong("ValueError", "does not exist")
def variable_missing(tf: Any) -> Any:
    with tf.variable_scope("s", reuse=True):
        return tf.get_variable("v", [2])


@wrong("ValueError", "2", "3")
def variable_other_shape(tf: Any) -> Any:
    with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
        tf.get_variable("v", [2])
        return tf.get_variable("v", [3])


@wrong("ValueError", "int32", "float64")
def variable_other_type(tf: Any) -> Any:
    return tf.get_variable("v", initializer=3, dtype=tf.float64)


@wrong("ValueError")
def variable_open_shape(tf: Any) -> Any:
    return tf.get_variable("v", [None, 2])


@wrong("ValueError", "No gradients")
def nothing_to_train(tf: Any) -> Any:
    v = tf.Variable(1.0)
    return tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0), var_list=[v])


@wrong("ValueError")
def no_variables(tf: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))


@wrong("ValueError", "same graph|Graph|graph")
def two_graphs(tf: Any) -> Any:
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    return tf.add(tf.constant(1.0), other)


@wrong("ValueError", "float32", "int32")
def cond_types(tf: Any) -> Any:
    return tf.cond(tf.constant(True), lambda: tf.constant(1.0), lambda: tf.constant(1))


@wrong("ValueError", "No variables to save")
def nothing_to_save(tf: Any) -> Any:
    return tf.train.Saver()


@wrong("ValueError")
def device_name(tf: Any) -> Any:
    with tf.device("/nowhere:0"):
        return tf.constant(1.0)


# ---------------------------------------------------------------------- feeds and fetches, refused before anything runs


@wrong("ValueError", r"Cannot feed value of shape \(2,\)", "x:0", "3")
def feed_shape(tf: Any) -> Any:
    x = fed(tf, 3)
    return run(tf, x + 1, {x: [1.0, 2.0]})


@wrong("ValueError")
def feed_text(tf: Any) -> Any:
    x = fed(tf, 1)
    return run(tf, x + 1, {x: ["a"]})


@wrong("TypeError")
def feed_tensor(tf: Any) -> Any:
    x = fed(tf)
    return run(tf, x + 1, {x: tf.constant(1.0)})


@wrong("TypeError", "feed_dict|key")
def feed_name(tf: Any) -> Any:
    fed(tf)
    return run(tf, tf.constant(1.0), {"nobody:0": 1.0})


@wrong("TypeError", "Fetch|fetch")
def fetch_none(tf: Any) -> Any:
    return run(tf, None)


@wrong("TypeError")
def fetch_number(tf: Any) -> Any:
    return run(tf, 3.0)


@wrong("ValueError", "graph")
def fetch_of_other_graph(tf: Any) -> Any:
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    return run(tf, other)


@wrong("ValueError", "nobody")
def fetch_name(tf: Any) -> Any:
    return run(tf, "nobody:0")


@wrong("RuntimeError", "closed")
def closed_session(tf: Any) -> Any:
    x = tf.constant(1.0)
    session = tf.Session()
    session.close()
    return session.run(x)


@wrong("RuntimeError", "empty")
def empty_graph(tf: Any) -> Any:
    return tf.Session().run("x:0")


@wrong("ValueError", "default session")
def eval_without_session(tf: Any) -> Any:
    return tf.constant(1.0).eval()


@wrong("RuntimeError", "finalized")
def finalized(tf: Any) -> Any:
    tf.get_default_graph().finalize()
    return tf.constant(1.0)


# ---------------------------------------------------------------------- when it runs: node, op, device and line


@wrong("InvalidArgumentError", "must feed", "'x'|x:0")
def nothing_fed(tf: Any) -> Any:
    return run(tf, fed(tf) + 1)


@wrong("FailedPreconditionError", "uninitialized", "v")
def uninitialized(tf: Any) -> Any:
    return run(tf, tf.Variable(1.0, name="v", use_resource=False) + 1, initialize=False)


@wrong("InvalidArgumentError", "MatMul", "3")
def matmul_at_run(tf: Any) -> Any:
    x = fed(tf, None, None)
    return run(tf, tf.matmul(x, tf.zeros([3, 2])), {x: np.zeros((2, 2))})


@wrong("InvalidArgumentError", "2", "3")
def add_at_run(tf: Any) -> Any:
    x = fed(tf, None)
    return run(tf, tf.add(x, tf.placeholder_with_default([1.0, 2.0], [None])), {x: [1.0, 2.0, 3.0]})


@wrong("InvalidArgumentError", "5|4")
def reshape_at_run(tf: Any) -> Any:
    x = fed(tf, None)
    return run(tf, tf.reshape(x, [2, 2]), {x: np.zeros(5)})


@wrong("InvalidArgumentError")
def concat_at_run(tf: Any) -> Any:
    x = fed(tf, None, None)
    return run(tf, tf.concat([x, tf.zeros([1, 3])], 0), {x: np.zeros((2, 2))})


@wrong("InvalidArgumentError", "7", r"\[0, 4\)")
def gather_at_run(tf: Any) -> Any:
    return run(tf, tf.gather(tf.zeros([4]), tf.placeholder_with_default([7], [None])))


@wrong("InvalidArgumentError")
def label_at_run(tf: Any) -> Any:
    labels = tf.placeholder_with_default([9], [None])
    return run(tf, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=tf.zeros([1, 3])))


@wrong("InvalidArgumentError", "bad|nan|Nan|NaN", "said")
def check_numerics(tf: Any) -> Any:
    return run(tf, tf.check_numerics(tf.log(tf.placeholder_with_default([-1.0], [None])), "said so"))


@wrong("InvalidArgumentError", "assertion failed", "said")
def assertion(tf: Any) -> Any:
    with tf.control_dependencies([tf.Assert(tf.placeholder_with_default(False, []), ["said so"])]):
        return run(tf, tf.constant(1.0) + 1)


@wrong("InvalidArgumentError", "not invertible|singular|ingular")
def singular(tf: Any) -> Any:
    return run(tf, tf.matrix_inverse(tf.placeholder_with_default(np.zeros((2, 2), np.float32), [2, 2])))


@wrong("InvalidArgumentError", "[Zz]ero")
def divided_by_zero(tf: Any) -> Any:
    return run(tf, tf.placeholder_with_default([4], [1]) // tf.placeholder_with_default([0], [1]))


@wrong("OutOfRangeError", "closed")
def empty_queue(tf: Any) -> Any:
    queue = tf.FIFOQueue(3, tf.float32, [()])
    with tf.Session() as session:
        session.run(queue.close())
        return session.run(queue.dequeue())


@wrong("CancelledError")
def closed_queue(tf: Any) -> Any:
    queue = tf.FIFOQueue(3, tf.float32, [()])
    with tf.Session() as session:
        session.run(queue.close())
        return session.run(queue.enqueue(1.0))


@wrong("NotFoundError", "nofile")
def missing_file(tf: Any) -> Any:
    return run(tf, tf.read_file("/tmp/nofile"))


@wrong("ValueError", "nomodel")
def missing_checkpoint(tf: Any) -> Any:
    tf.Variable(1.0)
    return tf.train.Saver().restore(tf.Session(), "/tmp/nomodel")


@wrong("FailedPreconditionError")
def empty_table(tf: Any) -> Any:
    init = tf.lookup.KeyValueTensorInitializer(["a"], tf.constant([1], tf.int64))
    return run(tf, tf.lookup.StaticHashTable(init, -1).lookup(tf.constant(["a"])))


@wrong("InvalidArgumentError", "bogus")
def number_of_text(tf: Any) -> Any:
    return run(tf, tf.string_to_number(tf.placeholder_with_default(["bogus"], [1])))


@wrong("InvalidArgumentError")
def csv_fields(tf: Any) -> Any:
    return run(tf, tf.decode_csv(tf.placeholder_with_default(["1,2,3"], [1]), [[0], [0]]))


@wrong("InvalidArgumentError")
def one_example(tf: Any) -> Any:
    serialized = tf.placeholder_with_default([b"no example"], [1])
    return run(tf, tf.parse_example(serialized, {"a": tf.FixedLenFeature([], tf.float32)}))


@wrong("UnknownError", "KeyError", "'there'")
def python_function(tf: Any) -> Any:
    def fails() -> Any:
        raise KeyError("there")

    return run(tf, tf.py_func(fails, [], tf.float32))


@wrong("InvalidArgumentError", r"predictions must be in \[0, 1\]")
def logits_in_auc(tf: Any) -> Any:
    logits = tf.placeholder_with_default(np.array([0.2, 1.5], np.float32), [None])
    _, update = tf.metrics.auc([0, 1], logits)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        return session.run(update)


@wrong("InvalidArgumentError", "2", "3")
def assigned_at_run(tf: Any) -> Any:
    v = tf.Variable(tf.zeros([2]), use_resource=False)
    return run(tf, tf.assign(v, tf.placeholder_with_default(np.zeros(3, np.float32), [None])))


@wrong("InvalidArgumentError")
def slice_at_run(tf: Any) -> Any:
    return run(tf, tf.slice(tf.zeros([3]), tf.placeholder_with_default([2], [1]), [2]))


@wrong("InvalidArgumentError")
def in_a_loop(tf: Any) -> Any:
    at = tf.placeholder_with_default([0, 1, 9], [3])
    return run(tf, tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s + tf.gather([1, 2], at[i])), [0, 0]))
