"""Tensors as text: as TensorFlow 2.21 shows them."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

ODD = [1, 2.25, 1e-7, 1e10, np.nan, np.inf, 0.1]
SHOWN: list[tuple[Any, str]] = [
    (np.float32(1.5), "1.5"),
    (np.array(ODD, np.float32), "[1 2.25 1e-07 ... nan inf 0.1]"),
    (np.array([0.1, 1 / 3, 1e22, 123456789.123]), "[0.1 0.33333333333333331 1e+22 123456789.123]"),
    (np.array([123456.789, 16777216, 1234567.9, 3.14159274], np.float32),
     "[123456.789 16777216 1234567.88 3.14159274]"),
    (np.array([0.1, 3], np.float16), "[0.0999755859 3]"),
    (
        np.arange(24).reshape(2, 3, 4),
        "[[[0 1 2 3]\n  [4 5 6 7]\n  [8 9 10 11]]\n\n [[12 13 14 15]\n  [16 17 18 19]\n  [20 21 22 23]]]",
    ),
    (np.arange(16).reshape(8, 2), "[[0 1]\n [2 3]\n [4 5]\n ...\n [10 11]\n [12 13]\n [14 15]]"),
    (np.array(["a", 'b"\n'], object), '["a" "b\\"\\n"]'),
    (np.array([True, False]), "[1 0]"),
    (np.zeros(0), "[]"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "text"), SHOWN)
def test_values(graph: Any, value: Any, text: str) -> None:
    with tf.Session() as session:
        assert session.run(tf.strings.format("{}", tf.constant(value))).decode() == text


def test_more_or_fewer_elements(graph: Any) -> None:
    with tf.Session() as session:
        shown = [session.run(tf.strings.format("<%>", tf.range(7), "%", summarize=n)).decode() for n in (-1, 2, 3)]
    assert shown == ["<[0 1 2 3 4 5 6]>", "<[0 1 ... 5 6]>", "<[0 1 2 ... 4 5 6]>"]
    with pytest.raises(ValueError, match="placeholder"):
        tf.strings.format("{} {}", tf.constant(1))


def test_print_writes_when_it_runs(graph: Any, capfd: Any, tmp_path: Path, caplog: Any) -> None:
    data = {"b": tf.constant(2.0), "a": [1, "q"]}
    out = tf.print("x:", tf.constant([1, 2]), data, 3, None, "{}", output_stream=sys.stdout, sep="~", end="!\n")
    sparse = tf.SparseTensor([[0, 1]], [5], [1, 2])
    err = tf.print(sparse, tf.get_variable("v", initializer=4))
    path = tmp_path / "out.txt"
    file = tf.print(tf.constant(1), output_stream=f"file://{path}")
    log = tf.print("to the log", output_stream=tf.logging.info)
    with tf.Session() as session, caplog.at_level(logging.INFO, "sparkflow"):
        session.run(tf.global_variables_initializer())
        assert session.run([out, err, file, log]) == [None] * 4
    written = capfd.readouterr()
    assert written.out == "x:~[1 2]~{'a': [1, 'q'], 'b': 2}~3~None~{}!\n"
    assert written.err.startswith("SparseTensor(indices=[[0 1]], values=[5], shape=[1 2]) 4\n")
    assert path.read_text() == "1\n" and "to the log" in caplog.text
    with pytest.raises(ValueError, match="output_stream"):
        tf.print(1, output_stream="nowhere")
