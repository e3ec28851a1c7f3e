"""What cannot be built or fed is refused by both libraries, in the same class of error."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from tests.oracle.engines import OURS, THEIRS, Engine, failed

Build = Callable[[Any], Any]


def _x(tf: Any, *shape: int, dtype: str = "float32") -> Any:
    return tf.placeholder(tf.as_dtype(dtype), shape)


REFUSED: dict[str, Build] = {
    "add-shapes": lambda tf: _x(tf, 2, 3) + _x(tf, 4),
    "add-types": lambda tf: _x(tf, 2) + _x(tf, 2, dtype="int32"),
    "add-types-function": lambda tf: tf.add(_x(tf, 2), _x(tf, 2, dtype="float64")),
    "add-text": lambda tf: _x(tf, 2) + "text",
    "add-fraction-to-int": lambda tf: _x(tf, 2, dtype="int32") + 1.5,
    "divide-types": lambda tf: tf.truediv(_x(tf, 2), _x(tf, 2, dtype="int32")),
    "sqrt-of-int": lambda tf: tf.sqrt(_x(tf, 2, dtype="int32")),
    "exp-of-text": lambda tf: tf.exp(tf.constant("a")),
    "not-of-number": lambda tf: tf.logical_not(_x(tf, 2)),
    "softmax-axis-of-vector": lambda tf: tf.nn.softmax(_x(tf, 2), 1),
    "log-softmax-axis-of-vector": lambda tf: tf.nn.log_softmax(_x(tf, 2), -2),
    "entropy-axis": lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(_x(tf, 2, 3), _x(tf, 2, 3), axis=2),
    "rows-of-tensor": lambda tf: list(_x(tf, 2)),
    "matmul-inner": lambda tf: tf.matmul(_x(tf, 2, 3), _x(tf, 2, 3)),
    "matmul-vector": lambda tf: tf.matmul(_x(tf, 3), _x(tf, 3, 2)),
    "matmul-types": lambda tf: tf.matmul(_x(tf, 2, 3), _x(tf, 3, 2, dtype="float64")),
    "matmul-both": lambda tf: tf.matmul(_x(tf, 2, 2), _x(tf, 2, 2), transpose_a=True, adjoint_a=True),
    "reduce-axis": lambda tf: tf.reduce_sum(_x(tf, 2, 3), 2),
    "reduce-all-of-numbers": lambda tf: tf.reduce_all(_x(tf, 2)),
    "argmax-axis": lambda tf: tf.argmax(_x(tf, 2, 3), 5),
    "concat-shapes": lambda tf: tf.concat([_x(tf, 2, 3), _x(tf, 2, 4)], 0),
    "concat-ranks": lambda tf: tf.concat([_x(tf, 2, 3), _x(tf, 3)], 0),
    "concat-types": lambda tf: tf.concat([_x(tf, 2), _x(tf, 2, dtype="int32")], 0),
    "stack-shapes": lambda tf: tf.stack([_x(tf, 2), _x(tf, 3)]),
    "stack-axis": lambda tf: tf.stack([_x(tf, 2), _x(tf, 2)], 3),
    "unstack-unknown": lambda tf: tf.unstack(tf.placeholder(tf.float32, [None])),
    "unstack-axis": lambda tf: tf.unstack(_x(tf, 2), axis=1),
    "split-uneven": lambda tf: tf.split(_x(tf, 3), 2),
    "reshape-count": lambda tf: tf.reshape(_x(tf, 2, 3), [4]),
    "reshape-two-open": lambda tf: tf.reshape(_x(tf, 2, 3), [-1, -1]),
    "transpose-perm": lambda tf: tf.transpose(_x(tf, 2, 3), [0]),
    "transpose-twice": lambda tf: tf.transpose(_x(tf, 2, 3), [1, 1]),
    "squeeze-size": lambda tf: tf.squeeze(_x(tf, 2, 3), [0]),
    "expand-axis": lambda tf: tf.expand_dims(_x(tf, 2), 3),
    "index-outside": lambda tf: _x(tf, 2)[2],
    "index-too-many": lambda tf: _x(tf, 2)[0, 0],
    "index-text": lambda tf: _x(tf, 2)["a"],
    "index-zero-step": lambda tf: _x(tf, 4)[::0],
    "slice-outside": lambda tf: tf.slice(_x(tf, 4), [3], [2]),
    "gather-scalar": lambda tf: tf.gather(_x(tf), [0]),
    "gather-float": lambda tf: tf.gather(_x(tf, 3), _x(tf, 2)),
    "gather-nd-deep": lambda tf: tf.gather_nd(_x(tf, 3), np.zeros((2, 2), np.int32)),
    "where-shapes": lambda tf: tf.where(_x(tf, 2, dtype="bool"), _x(tf, 2), _x(tf, 3)),
    "where-half": lambda tf: tf.where(_x(tf, 2, dtype="bool"), _x(tf, 2)),
    "where-types": lambda tf: tf.where(_x(tf, 2, dtype="bool"), _x(tf, 2), _x(tf, 2, dtype="int32")),
    "tile-rank": lambda tf: tf.tile(_x(tf, 2, 3), [2]),
    "pad-rank": lambda tf: tf.pad(_x(tf, 2), [[1, 1], [1, 1]]),
    "pad-mode": lambda tf: tf.pad(_x(tf, 2), [[1, 1]], "AROUND"),
    "broadcast": lambda tf: tf.broadcast_to(_x(tf, 2), [3]),
    "fill-value": lambda tf: tf.fill([2], _x(tf, 2)),
    "one-hot-float": lambda tf: tf.one_hot(_x(tf, 2), 3),
    "cast-unknown": lambda tf: tf.cast(_x(tf, 2), "complicated"),
    "constant-mixed": lambda tf: tf.constant([1, "a"]),
    "constant-ragged": lambda tf: tf.constant([[1, 2], [3]]),
    "constant-type": lambda tf: tf.constant(1.5, tf.int32),
    "constant-range": lambda tf: tf.constant(300, tf.int8),
    "constant-shape": lambda tf: tf.constant([1, 2, 3], shape=[2]),
    "constant-None": lambda tf: tf.constant(None),
    "convert-type": lambda tf: tf.convert_to_tensor(_x(tf, 2), tf.int32),
    "truth": lambda tf: bool(_x(tf) > 0),
    "iterate": lambda tf: list(tf.placeholder(tf.float32)),
    "length": lambda tf: len(_x(tf, 2)),
    "set-shape": lambda tf: _x(tf, 2).set_shape([3]),
    "addn-empty": lambda tf: tf.add_n([]),
    "addn-shapes": lambda tf: tf.add_n([_x(tf, 2), _x(tf, 3)]),
    "clip-list": lambda tf: tf.clip_by_global_norm(_x(tf, 2), 1.0),
    "segments": lambda tf: tf.segment_sum(_x(tf, 3, 2), _x(tf, 2, dtype="int32")),
    "partition-shape": lambda tf: tf.dynamic_partition(_x(tf, 3), _x(tf, 2, dtype="int32"), 2),
    "top-k-columns": lambda tf: tf.nn.top_k(_x(tf, 2), 3),
    "bias-size": lambda tf: tf.nn.bias_add(_x(tf, 2, 3), _x(tf, 2)),
    "bias-format": lambda tf: tf.nn.bias_add(_x(tf, 2, 3), _x(tf, 3), data_format="HWCN"),
    "softmax-axis": lambda tf: tf.nn.softmax(_x(tf, 2, 3), axis=2),
    "entropy-shapes": lambda tf: tf.nn.softmax_cross_entropy_with_logits_v2(labels=_x(tf, 2, 3), logits=_x(tf, 2, 4)),
    "entropy-positional": lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(_x(tf, 2)),
    "entropy-sigmoid": lambda tf: tf.nn.sigmoid_cross_entropy_with_logits(labels=_x(tf, 2), logits=_x(tf, 3)),
    "entropy-sparse": lambda tf: tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=_x(tf, 2, dtype="int32"), logits=_x(tf, 3, 4)
    ),
    "dropout-rate": lambda tf: tf.nn.dropout(_x(tf, 2), rate=1.5),
    "dropout-int": lambda tf: tf.nn.dropout(_x(tf, 2, dtype="int32"), rate=0.5),
    "random-int-max": lambda tf: tf.random_uniform([2], dtype=tf.int32),
    "variable-again": lambda tf: [tf.get_variable("v", [2]), tf.get_variable("v", [2])],
    "variable-shape": lambda tf: tf.get_variable("v"),
    "variable-reused-shape": lambda tf: _reused(tf, [2], [3]),
    "variable-reused-missing": lambda tf: _missing(tf),
    "variable-open-shape": lambda tf: tf.get_variable("v", [None, 2]),
    "assign-shape": lambda tf: tf.assign(tf.Variable([1.0, 2.0]), [1.0]),
    "assign-type": lambda tf: tf.assign(tf.Variable([1.0]), tf.constant([1])),
    "assign-tensor": lambda tf: tf.assign(_x(tf, 2), [1.0, 2.0]),
    "gradients-seeds": lambda tf: tf.gradients([_x(tf, 2)], [_x(tf, 2)], grad_ys=[]),
    "gradients-none": lambda tf: tf.gradients(tf.constant(1j), tf.constant(1j)),
    "minimize-nothing": lambda tf: tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0)),
    "minimize-unrelated": lambda tf: [tf.Variable(1.0), tf.train.AdamOptimizer().minimize(tf.constant(1.0))][0],
    "adagrad-start": lambda tf: tf.train.AdagradOptimizer(0.1, initial_accumulator_value=-1.0),
    "queue-components": lambda tf: tf.FIFOQueue(3, [tf.float32, tf.int32]).enqueue([1.0]),
    "queue-shape": lambda tf: tf.FIFOQueue(3, tf.float32, shapes=[[2]]).enqueue([[1.0]]),
    "queue-names": lambda tf: tf.FIFOQueue(3, tf.float32, names="a").enqueue(1.0),
    "device": lambda tf: _on_device(tf, "/nonsense:0"),
    "name": lambda tf: tf.constant(1, name="not a name"),
    "scope": lambda tf: tf.name_scope("not a scope!").__enter__(),
    "other-graph": lambda tf: _other_graph(tf),
    "finalized": lambda tf: [tf.get_default_graph().finalize(), tf.constant(1)],
    "no-element": lambda tf: tf.get_default_graph().as_graph_element("nothing:0"),
    "no-operation": lambda tf: tf.get_default_graph().get_operation_by_name("nothing"),
    "no-tensor-name": lambda tf: tf.get_default_graph().get_tensor_by_name("nothing"),
}


def _reused(tf: Any, *shapes: Any) -> None:
    for i, shape in enumerate(shapes):
        with tf.variable_scope("scope", reuse=i > 0):
            tf.get_variable("v", shape)


def _missing(tf: Any) -> None:
    with tf.variable_scope("scope", reuse=True):
        tf.get_variable("v", [2])


def _on_device(tf: Any, name: str) -> None:
    with tf.device(name):
        tf.constant(1)


def _other_graph(tf: Any) -> None:
    with tf.Graph().as_default():
        x = tf.constant(1.0)
    tf.add(x, tf.constant(1.0))


_EARLIER = "refused when the node is built, in TensorFlow when it runs"
KNOWN = {
    "transpose-twice": _EARLIER,
    "slice-outside": _EARLIER,
    "segments": _EARLIER,
    "constant-range": "TensorFlow takes the number modulo 256",
    "assign-tensor": "TensorFlow's AttributeError is a TypeError here",
    "queue-components": "TensorFlow drops the components that are missing",
}
KNOWN_FEEDS = {
    "fraction": "TensorFlow cuts fractions off",
    "none": "TensorFlow feeds nan",
}

FEEDS: dict[str, tuple[Any, Any]] = {  # the placeholder's (dtype, shape), and a value that does not fit
    "shape": (("float32", [2]), np.zeros(3, np.float32)),
    "rank": (("float32", [None]), np.float32(1)),
    "text": (("float32", None), "text"),
    "fraction": (("int32", None), 1.5),
    "ragged": (("float32", None), [[1, 2], [3]]),
    "none": (("float32", None), None),
    "overflow": (("int8", None), 300),
}


def _class(build: Callable[[], Any]) -> str | None:
    try:
        build()
    except Exception as error:  # any class: it is what is compared
        return failed(error).error
    return None


def _built(engine: Engine, build: Build) -> str | None:
    with engine.graph().as_default():
        return _class(lambda: build(engine.tf))


def _named(names: Iterable[str], known: dict[str, str]) -> list[Any]:
    marks = {n: [pytest.mark.xfail(reason=known[n], strict=True)] if n in known else [] for n in names}
    return [pytest.param(name, marks=marks[name]) for name in names]


@pytest.mark.parametrize("what", _named(REFUSED, KNOWN))
def test_the_same_class_of_error(what: str) -> None:
    assert _built(OURS, REFUSED[what]) == _built(THEIRS, REFUSED[what])


@pytest.mark.parametrize("what", _named(FEEDS, KNOWN_FEEDS))
def test_a_feed_that_does_not_fit(what: str) -> None:
    (dtype, shape), value = FEEDS[what]
    classes = []
    for engine in (OURS, THEIRS):
        graph = engine.graph()
        with graph.as_default():
            x = engine.tf.placeholder(engine.tf.as_dtype(dtype), shape)
            y = engine.tf.identity(x)
        with engine.session(graph) as session:
            classes.append(_class(lambda: session.run(y, {x: value})))  # noqa: B023 - called at once
    assert classes[0] == classes[1]


FETCHES: dict[str, Callable[[Any], Any]] = {
    "text": lambda tf: "nothing:0",
    "number": lambda tf: 7,
    "none": lambda tf: None,
    "list-of-none": lambda tf: [None],
}


@pytest.mark.parametrize("what", FETCHES)
def test_a_fetch_that_is_none(what: str) -> None:
    classes = []
    for engine in (OURS, THEIRS):
        graph = engine.graph()
        with graph.as_default():
            engine.tf.constant(1)
        with engine.session(graph) as session:
            classes.append(_class(lambda: session.run(FETCHES[what](engine.tf))))  # noqa: B023 - called at once
    assert classes[0] == classes[1]
