"""Wrong programs are refused as TensorFlow refuses them, and the message tells where the wrong node was made."""

from __future__ import annotations

import re
from typing import Any

import pytest

import sparkflow as tf
from tests.errors import more_programs, programs

assert more_programs  # whose rows are among programs.WRONG
_BUILDING = ("ValueError", "TypeError", "RuntimeError")


def class_of(name: str, errors: Any = tf.errors) -> type[Exception]:
    return {"ValueError": ValueError, "TypeError": TypeError, "RuntimeError": RuntimeError}.get(name) or getattr(
        errors, name
    )


@pytest.mark.parametrize("row", programs.WRONG, ids=[row[0] for row in programs.WRONG])
def test_wrong_program(graph: Any, row: programs.Row) -> None:
    _, program, error, patterns = row
    with pytest.raises(class_of(error)) as raised:
        program(tf)
    text = str(raised.value)
    assert [p for p in patterns if not re.search(p, text)] == [], text
    if error not in _BUILDING and isinstance(raised.value, tf.errors.OpError) and "[op " not in text:
        assert re.search(r"\[\[node [\w/.:]+ \(\w+\) on /job:\w+/\S*device:CPU:0\]\]", text), text
        assert re.search(r"defined at .*programs.py:\d+", text), text


def test_nothing_runs_before_a_wrong_feed_is_refused(graph: Any) -> None:
    counter = tf.Variable(0)
    x = tf.placeholder(tf.float32, [2])
    step = tf.assign_add(counter, 1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for feeds in ({x: [1.0]}, {x: "text"}, {"nobody:0": 1.0}, {x: [[1.0, 2.0]]}):
            with pytest.raises((ValueError, TypeError)):
                session.run([step, x], feeds)
        assert session.run(counter) == 0
