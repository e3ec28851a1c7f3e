"""tf.config: what it sets is what sessions without a ConfigProto do, or it says why not."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session.defaults import settings


@pytest.fixture(autouse=True)
def fresh_settings() -> Iterator[None]:
    with tf.Graph().as_default():
        yield
    settings().Clear()


def test_soft_placement_and_several_cpus_take_effect() -> None:
    with tf.device("/gpu:3"):
        x = tf.constant(1.0)
    with tf.device("/cpu:1"):
        y = tf.constant(2.0)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(x)
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_soft_device_placement(True)
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    assert [d.name for d in tf.config.list_logical_devices("CPU")] == ["/device:CPU:0", "/device:CPU:1"]
    assert tf.config.list_physical_devices("CPU") == [cpu] and tf.config.get_soft_device_placement()
    assert len(tf.config.get_logical_device_configuration(cpu) or ()) == 2
    with tf.Session() as session:
        assert session.run([x, y]) == [1.0, 2.0]
    with tf.Session(config=tf.ConfigProto()) as session, pytest.raises(tf.errors.InvalidArgumentError):
        session.run(x)


def test_visible_devices() -> None:
    every = tf.config.list_physical_devices()
    tf.config.set_visible_devices([], "GPU")
    assert settings().device_count["GPU"] == 0 and tf.config.get_visible_devices("GPU") == []
    assert tf.config.get_visible_devices("CPU") == [d for d in every if d.device_type == "CPU"]
    with pytest.raises(ValueError, match="a session needs the CPU"):
        tf.config.set_visible_devices([])
    with pytest.raises(ValueError, match="there is no"):
        tf.config.set_visible_devices([tf.config.PhysicalDevice("/physical_device:GPU:77", "GPU")], "GPU")


def test_threads_passes_and_placements_are_what_sessions_get() -> None:
    tf.config.threading.set_inter_op_parallelism_threads(3)
    tf.config.threading.set_intra_op_parallelism_threads(2)
    assert tf.config.threading.get_inter_op_parallelism_threads() == 3
    assert tf.config.threading.get_intra_op_parallelism_threads() == 2
    tf.config.optimizer.set_experimental_options({"constant_folding": False, "disable_meta_optimizer": True})
    wanted = {"constant_folding": False, "disable_model_pruning": False, "disable_meta_optimizer": True}
    assert tf.config.optimizer.get_experimental_options() == wanted
    assert settings().graph_options.rewrite_options.constant_folding == 2
    with pytest.raises(ValueError, match="there are no options"):
        tf.config.optimizer.set_experimental_options({"nonsense": True})
    tf.debugging.set_log_device_placement(True)
    assert tf.debugging.get_log_device_placement() and settings().log_device_placement


def test_a_placement_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    tf.debugging.set_log_device_placement(True)
    with tf.Session() as session:
        session.run(tf.constant(1.0, name="told"))
    captured = capfd.readouterr()
    assert "told" in captured.out + captured.err


REFUSED = [
    lambda: tf.config.optimizer.set_jit(True), lambda: tf.config.experimental.set_synchronous_execution(False),
    lambda: tf.config.experimental.set_device_policy("explicit"), lambda: tf.config.experimental.enable_mlir_bridge(),
    lambda: tf.config.experimental.enable_tensor_float_32_execution(True),
    lambda: tf.config.experimental.set_memory_growth(None, False),
    lambda: tf.config.experimental_connect_to_host("localhost:1"),
    lambda: tf.config.experimental_connect_to_cluster(None), lambda: tf.debugging.enable_check_numerics(),
    lambda: tf.debugging.experimental.enable_dump_debug_info("x"), lambda: tf.sysconfig.get_include(),
    lambda: tf.load_op_library("x.so"), lambda: tf.enable_v2_behavior(), lambda: tf.enable_tensor_equality(),
    lambda: tf.saved_model.save(tf.Module(), "x"), lambda: tf.saved_model.load_v2("x"),
    lambda: tf.enable_v2_tensorshape(), lambda: tf.config.experimental.reset_memory_stats("CPU:0"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_had_says_so(number: int) -> None:
    with pytest.raises(tf.errors.UnimplementedError):
        REFUSED[number]()


def test_what_is_so_anyway() -> None:
    c = tf.config.experimental
    assert c.get_device_policy() == "silent" and c.get_synchronous_execution() is True
    assert c.tensor_float_32_execution_enabled() is False and tf.config.optimizer.get_jit() == ""
    memory = c.get_memory_info("/device:CPU:0")
    assert memory["current"] > 0 and memory["peak"] > 0 and c.get_memory_usage("CPU:0") > 0
    assert c.get_device_details(tf.config.list_physical_devices("CPU")[0]) == {}
    with pytest.raises(ValueError, match="no device"):
        c.get_memory_info("GPU:77")
    assert not tf.executing_eagerly_outside_functions() and not tf.control_flow_v2_enabled()
    assert tf.is_symbolic_tensor(tf.constant(1)) and not tf.is_symbolic_tensor(1)


def _specs() -> list[tuple[Any, Any]]:
    slices = tf.IndexedSlices(tf.zeros([2, 3]), tf.constant([0, 1]))
    return [
        (tf.constant(1.0), tf.TensorSpec([], tf.float32)), (np.int32([1]), tf.TensorSpec([1], tf.int32)),
        (None, tf.NoneTensorSpec()), (slices, tf.IndexedSlicesSpec([None, 3], tf.float32, tf.int32, None, [2])),
        (tf.ragged.constant([[1], [2, 3]]), tf.RaggedTensorSpec([2, None], tf.int32, 1, tf.int64)),
        (tf.data.experimental.Optional.from_value(tf.constant(1.0)), tf.OptionalSpec(tf.TensorSpec([], tf.float32))),
        (tf.TensorArray(tf.int32, 3, element_shape=[2]), tf.TensorArraySpec([2], tf.int32)),
    ]  # fmt: skip


def test_values_have_specs() -> None:
    for value, spec in _specs():
        found = tf.type_spec_from_value(value)
        assert found == spec and hash(found) == hash(spec) and pickle.loads(pickle.dumps(found)) == spec
        assert spec.is_compatible_with(spec if value is None or isinstance(value, np.ndarray) else value)
    with pytest.raises(TypeError, match="Could not build a TypeSpec"):
        tf.type_spec_from_value(object())
    with pytest.raises(ValueError, match="must be less than rank"):
        tf.RaggedTensorSpec([None], ragged_rank=1)


def test_a_wrapped_function_keeps_its_variables() -> None:
    def code(x: Any) -> Any:
        v = tf.get_variable("v", initializer=2.0)
        w = tf.Variable(3.0)
        return v * w * x

    wrapped = tf.wrap_function(code, [tf.TensorSpec([], tf.float32)])
    found = wrapped(tf.constant(4.0)), wrapped(tf.constant(5.0))
    assert len(tf.global_variables()) == 2 and len(wrapped.variables) == 2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(found) == (24.0, 30.0)


def test_other_late_names(caplog: pytest.LogCaptureFixture) -> None:
    with tf.errors.raise_exception_on_not_ok_status() as status:
        assert status is None
    tf.logging.TaskLevelStatusMessage("told")
    tf.logging.flush()
    assert "told" in caplog.text and tf.saved_model.DEBUG_DIRECTORY == "debug"
    op = tf.saved_model.main_op_with_restore(tf.no_op(name="restore").name)
    assert "restore" in [c.name for c in op.control_inputs]
    assert {"function", "GradientTape", "Module"} <= set(dir(tf)) and tf.saved_model.Asset("a").asset_path == "a"
