"""Values that stay in the session between runs: get_session_handle, get_session_tensor, delete_session_tensor."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.resources.kept_values import KeptValues


def test_a_value_is_taken_up_again(graph: Any) -> None:
    a, b = tf.constant(10), tf.constant(5)
    with tf.Session() as session:
        handle = session.run(tf.get_session_handle(a * b))
        assert handle.eval() == 50 and handle.to_numpy_array() == 50 and handle.dtype == tf.int32
        holder, value = tf.get_session_tensor(handle.handle, tf.int32)
        assert holder.dtype == tf.string and session.run(value * 10, {holder: handle.handle}) == 500
        nested = session.run({"k": [tf.get_session_handle(a), b]})
        assert nested["k"][0].eval() == 10 and nested["k"][1] == 5


def test_a_handle_is_fed_for_its_value(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [3])
    double = tf.get_session_handle(x * 2)
    with tf.Session() as session:
        kept = session.run(double, {x: np.ones(3)})
        for _ in range(30):
            kept = session.run(double, {x: kept})
        assert kept.eval().tolist() == [2.0**31] * 3


def test_it_is_the_value_of_its_run(graph: Any) -> None:
    v = tf.Variable([1.0, 2.0])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        handle = session.run(tf.get_session_handle(v.value()))
        session.run(v.assign([7.0, 8.0]))
        assert handle.eval().tolist() == [1, 2]


def test_values_are_dropped(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [])
    keep = tf.get_session_handle(x)
    with tf.Session() as session:
        handle = session.run(keep, {x: 1})
        handle.delete()
        with pytest.raises(TypeError, match="has been deleted"):
            handle.eval()
        raw = session.run(keep, {x: 3}).get_raw_handle()
        gc.collect()
        holder, value = tf.get_session_tensor(raw, tf.float32)
        fed, dropped = tf.delete_session_tensor(raw)
        assert session.run(value, {holder: raw}) == 3 and session.run(dropped, {fed: raw}) is None
        with pytest.raises(tf.errors.InvalidArgumentError, match="not in the session store"):
            session.run(value, {holder: raw})
        other = session.run(keep, {x: 3})
        holder, value = tf.get_session_tensor(other.handle, tf.int32)
        with pytest.raises(tf.errors.InvalidArgumentError, match="asks for int32"):
            session.run(value, {holder: other.handle})
        for i in range(100):
            session.run(keep, {x: i})
        runtime: Any = session._runtime
        held = runtime._worker.resources
        kept = held.find(held.own_container(runtime._master.session_id), "kept values", KeptValues)
        assert len(kept._values) < 20, "those that nobody can name go, ten at a time"


def test_refusals(graph: Any) -> None:
    with pytest.raises(TypeError, match="must be of type Tensor"):
        tf.get_session_handle([1.0])
    with pytest.raises(ValueError, match="'handle' must be"):
        tf.get_session_tensor(3, tf.int32)  # type: ignore[arg-type]


def test_in_a_cluster(graph: Any) -> None:
    server = tf.train.Server.create_local_server()
    with tf.Session(server.target) as session:
        handle = session.run(tf.get_session_handle(tf.constant([1.0, 2.0]) * 3))
        assert "/job:local" in handle.handle and handle.eval().tolist() == [3, 6]
        handle.delete()
