"""Wrong calls that TensorFlow refuses by an exception of Python's own, if at all: here they say what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import sparkflow as tf

Estimator: Any = tf.estimator


def _in_scope(device: Any) -> Any:
    with tf.device(device):
        return tf.constant(1)


def _rows() -> Any:
    return tf.data.Dataset.range(3)


_CASES: dict[str, tuple[type[Exception], str, Callable[[], Any]]] = {
    "device": (TypeError, "a function of an operation, got 3", lambda: _in_scope(3)),
    "uneven rows": (ValueError, r"\[\[1, 2\], \[3\]\].*different lengths.*ragged", lambda: tf.constant([[1, 2], [3]])),
    "regularizer": (TypeError, "Variable v: regularizer.*3", lambda: tf.get_variable("v", [2], regularizer=3)),
    "flat_map": (TypeError, "`map_func` must return a `Dataset`.*Tensor", lambda: _rows().flat_map(lambda x: x)),
    "map": (tf.errors.UnimplementedError, "flat_map", lambda: _rows().map(lambda x: _rows())),
    "filter": (tf.errors.UnimplementedError, "flat_map", lambda: _rows().filter(lambda x: _rows())),
    "options": (TypeError, "`options` must be a tf.RunOptions.*'int'", lambda: tf.Session().run(tf.no_op(), options=3)),
    "metadata": (TypeError, "run_metadata.*RunMetadata", lambda: tf.Session().run(tf.no_op(), run_metadata=3)),
    "no checkpoints": (ValueError, "keep_checkpoint_max.*-1", lambda: Estimator.RunConfig(keep_checkpoint_max=-1)),
    "replaced": (ValueError, "save_summary_steps.*-2", lambda: Estimator.RunConfig().replace(save_summary_steps=-2)),
    "every 0 hours": (ValueError, "above 0", lambda: Estimator.RunConfig(keep_checkpoint_every_n_hours=0)),
    "train input": (TypeError, "input_fn must be callable.*3", lambda: Estimator.TrainSpec(3)),
    "train steps": (ValueError, "max_steps >= 1.*-1", lambda: Estimator.TrainSpec(len, max_steps=-1)),
    "train hooks": (TypeError, "SessionRunHook, got 3", lambda: Estimator.TrainSpec(len, hooks=[3])),
    "eval steps": (ValueError, "steps >= 1.*0", lambda: Estimator.EvalSpec(len, steps=0)),
    "eval delay": (ValueError, "throttle_secs >= 0.*-1", lambda: Estimator.EvalSpec(len, throttle_secs=-1)),
}


@pytest.mark.parametrize("case", _CASES.values(), ids=_CASES)
def test_refused(graph: Any, case: tuple[type[Exception], str, Callable[[], Any]]) -> None:
    error, pattern, call = case
    with pytest.raises(error, match=pattern):
        call()


def test_specs_are_tuples_as_before() -> None:
    spec = Estimator.EvalSpec(len, steps=None)
    assert spec._replace(steps=3).steps == 3 and spec == (len, None, None, (), (), 120, 600)
    assert Estimator.TrainSpec(len, 5) == (len, 5, (), ())
