"""Values that cross between a GPU's memory and the host's, or from one GPU to another: they are what they would be on a
CPU, whenever they are read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.lifetimes import measured_peaks
from sparkflow_runtime.wire.protos import AttrValue, RewriterConfig
from tests.on_gpus import agree
from tests.stand_in_cupy import gpus


def test_a_variable_that_is_read_before_an_update_and_used_after_it_elsewhere(gpu: None) -> None:
    def model() -> Any:
        with tf.device("/cpu:0"):
            v = tf.get_variable("v", initializer=tf.range(4.0))
        w = tf.get_variable("w", initializer=tf.range(4.0))
        step = tf.train.get_or_create_global_step()
        with tf.device("/cpu:0"):
            shown = w * 2
        before = [v * 2, shown, tf.cast(step, tf.float32) * 2]
        with tf.control_dependencies(before):
            updates = [v.assign_add(tf.ones([4])), w.assign_add(tf.ones([4])), tf.assign_add(step, 1)]
        with tf.control_dependencies(updates):
            after = [v + 1, tf.cast(step, tf.float32)]
            with tf.device("/cpu:0"):
                after.append(w + 1)
        return [*before, *after], {}

    agree(model)


@pytest.mark.parametrize("native", [True, False])
def test_views_of_a_variable_are_copied_on_its_gpu(native: bool) -> None:
    """One that is used after an update has to keep the old value, in a loop too, by either executor."""
    with gpus(2), tf.Graph().as_default(), tf.device("/gpu:1"):
        v = tf.get_variable("v", initializer=tf.range(6.0))

        def body(i: Any, total: Any) -> Any:
            part, *halves = v[1:4], *tf.split(v, 2)
            with tf.control_dependencies([part, *halves]):
                updated = v.assign_add(tf.ones([6]))
            with tf.control_dependencies([updated]):
                return i + 1, total + part * 2 + halves[1]

        outside = body(0, tf.zeros([3]))[1]
        _, total = tf.while_loop(lambda i, _: i < 2, body, [0, tf.zeros([3])], parallel_iterations=1)
        with tf.Session() as session:
            session._runtime._master._own.native_loops = native
            session.run(v.initializer)
            np.testing.assert_array_equal(session.run(outside), [5, 8, 11])
            np.testing.assert_array_equal(session.run(total), [19, 25, 31])


def test_what_is_swapped_waits_in_the_memory_of_the_host(gpu: None) -> None:
    def step(option: int) -> tuple[int, list[np.ndarray]]:
        """The most that a step takes of the GPU, and what three steps make of the variables."""
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.memory_optimization = option
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(3)
            with tf.device("/gpu:0"):
                h = x = tf.placeholder(tf.float32, [2048, 64])
                for i in range(8):
                    h = tf.tanh(tf.matmul(h, tf.get_variable(f"w{i}", [64, 64])))
                train = tf.train.GradientDescentOptimizer(0.5).minimize(tf.reduce_mean(tf.square(h)))
            for op in graph.get_operations():
                if op.type == "MatMul" and op.name.startswith("gradients/") and op.get_attr("transpose_a"):
                    op._set_attr("_swap_to_host", AttrValue(i=0))
            with tf.Session(config=config) as session:
                session.run(tf.global_variables_initializer())
                metadata, feed = tf.RunMetadata(), {x: np.ones((2048, 64), np.float32)}
                for _ in range(3):
                    session.run(train, feed, tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), metadata)
                peaks = measured_peaks([metadata.step_stats])
                return peaks["/job:localhost/replica:0/task:0/device:GPU:0"][0], session.run(tf.global_variables())

    (most, plain), (less, found) = step(RewriterConfig.NO_MEM_OPT), step(RewriterConfig.MANUAL)
    assert less < 0.75 * most
    for a, b in zip(found, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_variable_on_a_server_goes_where_the_next_session_has_it(cluster: Any) -> None:
    """From one GPU to another too. While a session is open its variables stay: its kernels know that memory alone."""

    def session(device: str) -> tuple[tf.Session, Any]:
        with tf.Graph().as_default(), tf.device(device):
            v = tf.get_variable("v", initializer=tf.zeros([2]))
            return tf.Session(target), v.assign_add(tf.exp(v - v))

    with gpus(2):
        target = cluster(worker=1)["worker0"].target
        with tf.Graph().as_default(), tf.Session(target) as first:
            first.run(tf.get_variable("v", initializer=tf.zeros([2])).initializer)
        for i, device in enumerate(["/gpu:0", "/gpu:1", "/cpu:0", "/gpu:1", "/gpu:0"]):
            one, bump = session(device)
            with one:
                np.testing.assert_array_equal(one.run(bump), [i + 1, i + 1])
        trains, bump = session("/gpu:0")
        looks, shown = session("/cpu:0")
        with trains, looks:
            np.testing.assert_array_equal(trains.run(bump), [6, 6])
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"'v' is on .*GPU:0 in another session.*CPU:0"):
                looks.run(shown)
            np.testing.assert_array_equal(trains.run(bump), [7, 7])


def test_a_gpu_that_has_no_room_for_a_feed_names_it() -> None:
    def full(*_: Any, **__: Any) -> None:
        raise MemoryError("Out of memory allocating 1,024 bytes")  # cupy's error is one of these

    with gpus(1) as cupy, tf.Graph().as_default(), tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, [256], name="x")
        squared = tf.square(x)
        cupy.asarray = full  # type: ignore[attr-defined]
        with tf.Session() as session, pytest.raises(tf.errors.ResourceExhaustedError) as caught:
            session.run(squared, {x: np.ones(256)})
    assert caught.value.op is x.op
    assert "1,024 bytes" in str(caught.value) and "[[node x (_ToDevice) on" in str(caught.value)
    assert "GPU:0" in str(caught.value) and "defined at" in str(caught.value)


def test_which_gpus_a_process_has() -> None:
    """As one of several processes of a host says it: its /gpu:0 is another for each."""

    def config(listed: str) -> Any:
        return tf.ConfigProto(gpu_options=tf.GPUOptions(visible_device_list=listed))

    with gpus(3) as cupy, tf.Graph().as_default(), tf.device("/gpu:0"):
        doubled = tf.ones([2]) * tf.Variable([2.0, 3.0]).initialized_value()
        with tf.Session(config=config("2,1")) as session:
            np.testing.assert_array_equal(session.run(doubled), [2, 3])
            assert [d.name[-5:] for d in session.list_devices()] == ["CPU:0", "GPU:0", "GPU:1"]
        assert set(cupy.cuda.Device.used) == {2}
        with tf.Session() as session:
            np.testing.assert_array_equal(session.run(doubled), [2, 3])
        assert set(cupy.cuda.Device.used) == {2}
        for listed, said in (
            ("0", "an earlier session"),
            ("5", "cupy reaches 3"),
            ("1,1", "cupy reaches"),
            ("a", "'0,2'"),
        ):
            refused = pytest.raises(tf.errors.InvalidArgumentError, match=said)
            with tf.Session(config=config(listed)) as session, refused:
                session.run(doubled)
