"""make_template."""

from __future__ import annotations

from typing import Any

import pytest

import sparkflow as tf


def _dense(x: Any, units: int) -> Any:
    return tf.layers.dense(x, units, name="inner")


def test_variables_are_shared(graph: Any) -> None:
    layer = tf.make_template("layer", _dense, units=3)
    x = tf.zeros([2, 4])
    layer(x)
    layer(x)
    other = tf.make_template("layer", _dense, units=3, create_scope_now_=True)
    with tf.variable_scope("elsewhere"):
        other(x)
        layer(x)
    names = [v.op.name for v in tf.global_variables()]
    assert names == ["layer/inner/kernel", "layer/inner/bias", "layer_1/inner/kernel", "layer_1/inner/bias"]
    assert layer.trainable_variables == tf.global_variables()[:2] and other.variable_scope_name == "layer_1"


def test_a_new_variable_in_a_later_call_is_refused(graph: Any) -> None:
    template = tf.make_template("t", lambda: tf.Variable(1.0))
    with pytest.raises(ValueError, match="not called"):
        template.variables  # noqa: B018
    template()
    with pytest.raises(ValueError, match="after the first time"):
        template()
