"""Messages that protobuf does not write are refused by name, before there is a file."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from google.protobuf.message import DecodeError, EncodeError

import sparkflow as tf
from sparkflow_runtime.wire.protos import MetaGraphDef
from sparkflow_runtime.wire.serialized import serialized, within_limits


def _two_values(count: int) -> np.ndarray:
    """Of pages that nobody wrote, but for the last."""
    array = np.zeros(count, np.int8)
    array[-1] = 3
    return array


def test_a_constant_of_two_gibibytes_is_refused_at_once() -> None:
    array = _two_values(1 << 31)
    refused = pytest.raises(ValueError, match=r"larger than 2 GiB: int8 .*2147483648.*feed")
    with tf.Graph().as_default() as graph, refused:
        tf.constant(array)
    assert not graph.get_operations()
    with pytest.raises(ValueError, match="larger than 2 GiB"):
        tf.make_tensor_proto(array)


def test_many_bytes_of_one_value_are_few() -> None:
    with tf.Graph().as_default() as graph:
        zeros = tf.constant(np.broadcast_to(np.int8(2), [1 << 32]))
        assert len(serialized(graph.as_graph_def())) < 1000
        with tf.Session() as session:
            assert session.run(zeros[-1]) == 2


def test_what_is_too_large_is_named(tmp_path: Path) -> None:
    with tf.Graph().as_default() as graph:
        tf.constant(_two_values(7), name="small")
        tf.constant(_two_values(9000), name="large")
    meta = MetaGraphDef(graph_def=graph.as_graph_def())

    class Refusing:
        DESCRIPTOR = MetaGraphDef.DESCRIPTOR
        graph_def = meta.graph_def

        def SerializeToString(self, deterministic: bool = False) -> bytes:
            raise EncodeError("Failed to serialize proto")

    with pytest.raises(tf.errors.InvalidArgumentError, match=r"MetaGraphDef cannot .* 'large' of 9000.*variables"):
        serialized(Refusing())
    with pytest.raises(ValueError, match="2 GiB"), within_limits(meta):
        raise DecodeError("Wire format was corrupt")
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.train.write_graph(Refusing(), str(tmp_path), "graph.pb", as_text=False)
    assert not os.listdir(tmp_path)
