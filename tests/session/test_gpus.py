"""Graphs on a GPU: what they compute is what they compute on a CPU, whatever crosses between the memories.

Each runs on a stand-in for cupy (tests/stand_in_cupy.py), and where there is a GPU on that as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import rnn
from tests.on_gpus import X, agree, trained
from tests.stand_in_cupy import gpus

IMAGES = np.random.RandomState(1).randn(4, 9, 9, 3).astype(np.float32)


def placed(graph: tf.Graph, fetches: Any, feeds: Any = None) -> dict[str, str]:
    """Of a session's last step: node -> device."""
    with tf.Session(graph=graph) as session:
        session.run(tf.global_variables_initializer())
        metadata = tf.RunMetadata()
        session.run(fetches, feeds, tf.RunOptions(output_partition_graphs=True), metadata)
        return {n.name: n.device for part in metadata.partition_graphs for n in part.node}


def layers(x: Any, optimizer: Any) -> list[Any]:
    h = tf.layers.dense(x, 16, tf.nn.relu)
    h = tf.layers.dense(h, 16, tf.nn.tanh)
    logits = tf.layers.dense(h, 3)
    labels = tf.cast(tf.reduce_sum(x, 1) > 0, tf.int32)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    return [loss, tf.argmax(logits, 1), optimizer.minimize(loss, tf.train.get_or_create_global_step())]


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.1),
        lambda: tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
        lambda: tf.train.AdamOptimizer(0.05),
        lambda: tf.train.AdagradOptimizer(0.1),
        lambda: tf.train.AdadeltaOptimizer(0.5),
        lambda: tf.train.RMSPropOptimizer(0.05, centered=True),
        lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.01),
        lambda: tf.train.ProximalAdagradOptimizer(0.1),
        lambda: tf.train.AdamOptimizer(tf.train.exponential_decay(0.05, tf.train.get_or_create_global_step(), 2, 0.5)),
    ],
)
def test_dense_layers(gpu: None, optimizer: Any) -> None:
    def model() -> Any:
        x = tf.placeholder(tf.float32, [None, 6], name="x")
        return layers(x, optimizer()), {x: X}

    agree(model)


@pytest.mark.parametrize("optimizer", [tf.train.AdagradOptimizer, tf.train.AdamOptimizer, tf.train.FtrlOptimizer])
def test_embeddings(gpu: None, optimizer: Any) -> None:
    def model() -> Any:
        ids = tf.placeholder(tf.int64, [None, 2])
        tables = [tf.get_variable(f"t{i}", [20, 4]) for i in range(2)]
        parted = tf.get_variable("p", [30, 4], partitioner=tf.fixed_size_partitioner(3))
        rows = [tf.nn.embedding_lookup(t, ids[:, i]) for i, t in enumerate(tables)]
        rows.append(tf.nn.embedding_lookup(parted, ids[:, 0], "div"))
        bag = tf.nn.embedding_lookup_sparse(
            tables[0], tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([3, 4, 3], tf.int64), [8, 2]), None
        )
        loss = tf.reduce_sum(tf.square(tf.concat(rows, 1)) * tf.range(12.0)) + tf.reduce_sum(bag)
        return [loss, optimizer(0.1).minimize(loss)], {ids: [[1, 2], [1, 7], [5, 2], [19, 0]]}

    agree(model)


def test_images(gpu: None) -> None:
    def model() -> Any:
        x = tf.placeholder(tf.float32, [None, 9, 9, 3])
        h = tf.layers.conv2d(x, 4, 3, activation=tf.nn.relu)
        h = tf.layers.batch_normalization(h, training=True)
        h = tf.layers.max_pooling2d(h, 2, 2)
        h = tf.layers.conv2d(h, 4, 2, padding="same")
        h = tf.layers.average_pooling2d(h, 2, 1)
        logits = tf.layers.dense(tf.layers.flatten(h), 3)
        loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits(labels=tf.one_hot([0, 1, 2, 1], 3), logits=logits)
        )
        with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
            return [loss, tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss)], {x: IMAGES}

    agree(model)


def test_dropout_draws_the_same(gpu: None) -> None:
    agree(lambda: ([tf.nn.dropout(tf.ones([50, 4]), 0.5, seed=1), tf.random_uniform([3], seed=2)], {}))


def test_recurrent_layers(gpu: None) -> None:
    def model() -> Any:
        x = tf.placeholder(tf.float32, [None, 5, 3])
        out, state = tf.nn.dynamic_rnn(rnn.LSTMCell(4), x, [5, 3], dtype=tf.float32)
        loss = tf.reduce_sum(tf.square(out)) + tf.reduce_sum(state.h)
        return [loss, state.c, tf.train.GradientDescentOptimizer(0.1).minimize(loss)], {x: X[:5].reshape(2, 5, 3)}

    agree(model)


def test_loops_and_branches(gpu: None) -> None:
    def model() -> Any:
        w = tf.get_variable("w", [6, 6])
        x = tf.placeholder(tf.float32, [None, 6])
        _, y, _ = tf.while_loop(
            lambda i, y, t: tf.logical_and(i < 4, tf.reduce_sum(tf.abs(t)) < 1e6),
            lambda i, y, t: (i + 1, tf.tanh(tf.matmul(y, w)), t * 2),
            [0, x, tf.constant([1.0, 2.0])],
        )
        big = tf.cond(tf.reduce_sum(y) > 0, lambda: y * 2, lambda: tf.matmul(y, w) - 1)
        counted = tf.case([(tf.less(tf.shape(x)[0], 3), lambda: tf.reduce_sum(y))], lambda: tf.reduce_max(big))
        ys = tf.map_fn(lambda row: tf.cumsum(row) * w[0], x)
        loss = tf.reduce_mean(tf.square(big)) + counted + tf.reduce_sum(ys)
        return [loss, big, ys, tf.train.AdamOptimizer(0.1).minimize(loss)], {x: X}

    agree(model)


def test_assignments(gpu: None) -> None:
    def model() -> Any:
        v = tf.get_variable("v", initializer=tf.zeros([4, 3]))
        n = tf.get_variable("n", initializer=tf.constant(0))
        rows = tf.scatter_update(v, [1, 3], tf.ones([2, 3]))
        with tf.control_dependencies([rows]):
            added = tf.scatter_add(v, [1, 1], tf.constant([[1.0, 2, 3], [4, 5, 6]]))
        with tf.control_dependencies([added]):
            whole, counted = tf.assign_sub(v, tf.ones([4, 3])), tf.assign_add(n, tf.shape(v)[0])
        with tf.control_dependencies([whole, counted]):
            shown = tf.identity(v) + tf.cast(n, tf.float32)
        with tf.control_dependencies([shown]):
            return [shown, tf.is_variable_initialized(v), v[1:3, ::2].assign(tf.zeros([2, 2]))], {}

    agree(model)


def test_what_a_host_does_stays_there_under_soft_placement(gpu: None) -> None:
    def model() -> Any:
        words = tf.constant(["a", "b", "a"])
        ids = tf.strings.to_hash_bucket_fast(words, 5)
        queue = tf.FIFOQueue(10, [tf.float32], [[2]])
        with tf.control_dependencies([queue.enqueue([tf.exp(tf.ones([2]))])]):
            taken = queue.dequeue() * 3
        called = tf.py_func(lambda x: x + 1, [taken], tf.float32)
        return [ids, taken, called, tf.gather(tf.exp(tf.ones([5, 2])), ids), tf.as_string(ids)], {}

    config = tf.ConfigProto(allow_soft_placement=True)
    on_cpu, on_gpu = (trained(model, device, 2, config) for device in ("/cpu:0", "/gpu:0"))
    for a, b in zip(on_gpu, on_cpu, strict=True):
        assert (a == b).all() if a.dtype == object else np.allclose(a, b)


def test_an_op_without_a_form_for_gpus_is_refused(gpu: None) -> None:
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        joined = tf.strings.join([tf.constant("a"), tf.constant("b")], name="joined")
        with (
            tf.Session() as session,
            pytest.raises(tf.errors.InvalidArgumentError, match=r"joined.*no kernel for GPUs"),
        ):
            session.run(joined)


def test_checkpoints(gpu: None, tmp_path: Any) -> None:
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        v = tf.get_variable("v", [3, 2])
        bias = tf.get_variable("b", [2], initializer=tf.ones_initializer)
        saver = tf.train.Saver()
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(config=config) as session:
            session.run(tf.global_variables_initializer())
            before = session.run([v, bias])
            path = saver.save(session, str(tmp_path / "model"))
        with tf.Session(config=config) as session:
            saver.restore(session, path)
            np.testing.assert_array_equal(session.run(v), before[0])
            np.testing.assert_array_equal(session.run(v * bias), before[0])


def test_what_asks_for_no_device_follows_onto_the_gpu(gpu: None) -> None:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 6])
        w = tf.get_variable("w", [6, 2])
        with tf.device("/gpu:0"):
            y = tf.matmul(x, w, name="y")
        train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y, name="loss"))
        where = placed(graph, train, {x: X})
    on_gpu = {name for name, device in where.items() if device.endswith("GPU:0")}
    assert {"w", "w/Adam"} <= on_gpu
    assert any(name.startswith("gradients/y_grad/MatMul") for name in on_gpu)


def test_a_graph_that_names_no_gpu_uses_none(gpu: None) -> None:
    with tf.Graph().as_default() as graph:
        where = placed(graph, tf.matmul(tf.get_variable("w", [6, 2]), tf.ones([2, 2])))
    assert all(device.endswith("CPU:0") for device in where.values())


def test_a_variable_moves_when_a_gpu_is_first_asked_for(gpu: None) -> None:
    with tf.Graph().as_default():
        v = tf.get_variable("v", initializer=tf.ones([3]))
        bump = v.assign_add(tf.ones([3]))
        with tf.Session() as session:
            session.run(v.initializer)
            session.run(bump)
            with tf.device("/gpu:0"):
                doubled = v * 2
            np.testing.assert_array_equal(session.run(doubled), [4, 4, 4])
            np.testing.assert_array_equal(session.run(bump), [3, 3, 3])
            np.testing.assert_array_equal(session.run(doubled), [6, 6, 6])


def test_towers_on_two_gpus() -> None:
    def model(*devices: str) -> list[Any]:
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            x = tf.placeholder(tf.float32, [None, 6])
            optimizer, towers = tf.train.GradientDescentOptimizer(0.1), []
            with tf.device("/cpu:0"):
                w = tf.get_variable("w", [6, 2])
            for device, part in zip(devices, tf.split(x, 2)):
                with tf.device(device):
                    towers.append(optimizer.compute_gradients(tf.reduce_mean(tf.square(tf.matmul(part, w)))))
            with tf.device("/cpu:0"):
                mean = tf.add_n([grads[0][0] for grads in towers]) / 2
                train = optimizer.apply_gradients([(mean, w)])
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return [session.run([train, w], {x: X})[1] for _ in range(3)][-1]

    with gpus(2) as cupy:
        found = model("/gpu:0", "/gpu:1")
        assert 1 in cupy.cuda.Device.used
        refused = pytest.raises(tf.errors.InvalidArgumentError, match=r"GPU:2.*GPU:0.*GPU:1")
        with tf.Graph().as_default(), tf.device("/gpu:2"), tf.Session() as session, refused:
            session.run(tf.square(tf.ones([2])))
    np.testing.assert_allclose(found, model("/cpu:0", "/cpu:0"), rtol=1e-5)


def test_how_many_gpus_a_session_shows(gpu: None) -> None:
    with tf.Session(config=tf.ConfigProto(device_count={"GPU": 0})) as session:
        assert {d.device_type for d in session.list_devices()} == {"CPU"}
    assert tf.test.is_gpu_available()
    assert tf.test.gpu_device_name() == "/device:GPU:0"


def test_numbers_out_of_a_gpu_are_checked(gpu: None) -> None:
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [2])
        checked = tf.check_numerics(tf.log(x), "log of x")
        asserted = tf.Assert(tf.reduce_all(x > 0), [x])
        with tf.Session() as session, np.errstate(all="ignore"):
            with pytest.raises(tf.errors.InvalidArgumentError, match="log of x"):
                session.run(checked, {x: [0, 1]})
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[-1"):
                session.run(asserted, {x: [-1, 1]})


def test_a_queue_read_in_a_branch(gpu: None) -> None:
    """What goes through the branch's Switch is no array."""
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(4, [tf.float32], [[]])
        chosen = tf.placeholder(tf.bool, [])
        with tf.device("/gpu:0"):
            read = tf.cond(chosen, queue.dequeue, lambda: tf.square(tf.constant(5.0))) * 2
        filled = queue.enqueue_many([[1.0, 2.0]])
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            session.run(filled)
            assert [session.run(read, {chosen: c}) for c in (True, False, True)] == [2, 50, 4]


def test_a_fetch_without_a_value_goes_by_its_own_name(gpu: None) -> None:
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        chosen, x = tf.placeholder(tf.bool, []), tf.placeholder(tf.float32, [])
        with tf.Session() as session:
            _, taken = tf.raw_ops.Switch(data=x, pred=chosen)
            squared = tf.square(taken, name="squared")
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"Fetch 'squared:0' does not have a value"):
                session.run(squared, {chosen: False, x: 1.0})


def test_a_traced_step(gpu: None) -> None:
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        squared = tf.square(tf.placeholder_with_default(tf.ones([1024]), [None]), name="squared")
        metadata = tf.RunMetadata()
        with tf.Session() as session:
            session.run(squared, None, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
    spans = {n.node_name: (d.device, n) for d in metadata.step_stats.dev_stats for n in d.node_stats}
    device, span = spans["squared"]
    assert device.endswith("GPU:0")
    allocation = span.output[0].tensor_description.allocation_description
    assert (allocation.allocated_bytes, allocation.allocator_name) == (4096, "GPU_0_bfc")
    fetched = next(span for device, span in spans.values() if span.node_name.startswith("squared/") and "CPU" in device)
    assert span.memory[0].allocator_bytes_in_use == 8192  # beside what was fed, which crossed too
    assert fetched.memory[0].allocator_bytes_in_use == 4096


def test_a_span_lasts_until_the_gpu_is_done() -> None:
    """A kernel's call returns when the GPU has been told."""
    with gpus(2) as cupy, tf.Graph().as_default():
        with tf.device("/gpu:1"):
            squared = tf.square(tf.placeholder_with_default(tf.ones([2]), [None]))
        with tf.Session() as session:
            session.run(squared)
            assert not cupy.cuda.Device.awaited
            session.run(squared, None, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), tf.RunMetadata())
        assert set(cupy.cuda.Device.awaited) == {1}


# ---------------------------------------------------------------------- in a cluster


def test_workers_with_a_gpu_and_a_server_without(gpu: None, cluster: Any) -> None:
    def model(worker: str) -> list[Any]:
        servers = cluster(ps=2, worker=1)
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            with tf.device(tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:0{worker}")):
                ids = tf.placeholder(tf.int64, [None, 3])
                tables = [tf.get_variable(f"t{i}", [20, 4]) for i in range(3)]
                rows = [tf.nn.embedding_lookup(t, ids[:, i]) for i, t in enumerate(tables)]
                logits = tf.layers.dense(tf.layers.dense(tf.concat(rows, 1), 8, tf.nn.relu), 1)
                loss = tf.losses.log_loss([[0.0], [1.0], [1.0], [0.0]], tf.sigmoid(logits))
                step = tf.train.get_or_create_global_step()
                train = tf.train.AdagradOptimizer(0.1).minimize(loss, step)
            config = tf.ConfigProto(allow_soft_placement=True)
            with tf.Session(servers["worker0"].target, config=config) as session:
                session.run(tf.global_variables_initializer())
                feeds = {ids: [[1, 2, 3], [1, 7, 3], [5, 2, 0], [19, 0, 0]]}
                losses = [session.run([train, loss], feeds)[1] for _ in range(4)]
                return [*losses, *session.run(tf.trainable_variables()), session.run(step)]

    for a, b in zip(model("/gpu:0"), model("/cpu:0"), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)


def test_the_gpu_of_another_task(gpu: None, cluster: Any) -> None:
    servers = cluster(worker=2)
    with tf.Graph().as_default() as graph:
        with tf.device("/job:worker/task:1/gpu:0"):
            v = tf.get_variable("v", initializer=tf.ones([3]))
            doubled = tf.multiply(v, 2, name="doubled")
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(doubled)
        with tf.Session(servers["worker0"].target, graph=graph) as session:
            session.run(v.initializer)
            metadata = tf.RunMetadata()
            found = session.run([total, doubled], None, tf.RunOptions(output_partition_graphs=True), metadata)
            names = [d.name for d in session.list_devices()]
        np.testing.assert_array_equal(found[1], [2, 2, 2])
        assert found[0] == 6
        assert "/job:worker/replica:0/task:1/device:GPU:0" in names
        where = {n.name: n.device for part in metadata.partition_graphs for n in part.node}
        assert where["doubled"] == "/job:worker/replica:0/task:1/device:GPU:0"


def test_a_task_that_has_no_gpu(cluster: Any) -> None:
    servers = cluster(worker=2)
    with gpus(0), tf.Graph().as_default(), tf.device("/job:worker/task:1/gpu:0"):
        doubled = tf.square(tf.ones([2])) * 2
        refused = pytest.raises(tf.errors.InvalidArgumentError, match=r"task:1.*GPU:0.*allow_soft_placement")
        with tf.Session(servers["worker0"].target) as session, refused:
            session.run(doubled)
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(servers["worker0"].target, config=config) as session:
            np.testing.assert_array_equal(session.run(doubled), [2, 2])
