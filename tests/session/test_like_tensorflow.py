"""Odd cases of Session, each with what TensorFlow 2.21 (compat.v1) gives: a value, or an error's class and words.

Where we differ on purpose the row says so: a feed is never cut or wrapped silently.
"""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph


class World(NamedTuple):
    """The tensors that the cases use."""

    graph: Graph
    i: Any
    f: Any
    i8: Any
    s: Any
    b: Any
    c: Any
    v: Any
    two: Any


@pytest.fixture
def world(graph: Graph) -> World:
    return World(
        graph,
        tf.placeholder(tf.int32, [], name="i"),
        tf.placeholder(tf.float32, [2], name="f"),
        tf.placeholder(tf.int8, [], name="i8"),
        tf.placeholder(tf.string, [], name="s"),
        tf.placeholder(tf.bool, [], name="b"),
        tf.constant(3, name="c"),
        tf.Variable(1.0, name="v"),
        tf.constant([1.0, 2.0], name="two"),
    )


Pair = collections.namedtuple("Pair", "left right")
Case = Callable[[World, tf.Session], Any]

VALUES: dict[str, tuple[Case, Any]] = {
    "an int for a float": (lambda w, s: s.run(w.f * 2, {w.f: [1, 2]}).tolist(), [2.0, 4.0]),
    "a whole float for an int": (lambda w, s: s.run(w.i, {w.i: 3.0}), 3),
    "a bool for an int": (lambda w, s: s.run(w.i, {w.i: True}), 1),
    "bytes stay bytes": (lambda w, s: s.run(w.s, {w.s: b"abc"}), b"abc"),
    "an empty list": (lambda w, s: s.run([]), []),
    "an empty tuple": (lambda w, s: s.run(()), ()),
    "an empty dict": (lambda w, s: s.run({}), {}),
    "a name with its port": (lambda w, s: s.run("i:0", {"i:0": 5}), 5),
    "a name as bytes": (lambda w, s: s.run(b"c:0"), 3),
    "an operation's name": (lambda w, s: s.run("v/Assign"), None),
    "a fed constant": (lambda w, s: s.run("c:0", {"c:0": 4}), 4),
    "what stands behind a fed constant": (lambda w, s: s.run(w.c + 1, {w.c: 4}), 5),
    "a fed variable": (lambda w, s: s.run(w.v, {w.v: 5.0}), 5.0),
    "a fed variable, read": (lambda w, s: s.run(w.v + 1.0, {w.v: 5.0}), 6.0),
    "the same tensor thrice": (lambda w, s: s.run([w.c, w.c, {"a": w.c}]), [3, 3, {"a": 3}]),
    "a namedtuple": (lambda w, s: s.run(Pair(w.c, [w.c.op])), Pair(3, [None])),
    "an OrderedDict": (
        lambda w, s: s.run(collections.OrderedDict(b=w.c, a=w.c.op)),
        collections.OrderedDict(b=3, a=None),
    ),
    "a defaultdict": (lambda w, s: s.run(collections.defaultdict(list, a=w.c)), collections.defaultdict(list, a=3)),
    "a tuple of keys": (lambda w, s: s.run(w.i + w.c, {(w.i, w.c): (5, 6)}), 11),
    "nested keys": (lambda w, s: s.run([w.i, w.c], {(w.i, (w.c,)): (5, (6,))}), [5, 6]),
    "a feed that nothing needs": (lambda w, s: s.run(w.c, {w.i: 1}), 3),
    "a callable": (lambda w, s: s.make_callable(w.f * 2, [w.f])([1, 2]).tolist(), [2.0, 4.0]),
    "a callable of names": (lambda w, s: s.make_callable("f:0", ["f:0"])([1, 2]).tolist(), [1.0, 2.0]),
    "a callable of an operation": (lambda w, s: s.make_callable(w.v.initializer)(), None),
    "a callable of a structure": (
        lambda w, s: s.make_callable({"a": [w.v.initializer, w.c]}, [w.f])([1, 2]),
        {"a": [None, 3]},
    ),
    "a callable with options": (
        lambda w, s: s.make_callable(w.c, accept_options=True)(options=tf.RunOptions(), run_metadata=tf.RunMetadata()),
        3,
    ),
    "closing twice": (lambda w, s: (s.close(), s.close()), (None, None)),
    "resetting no cluster": (lambda w, s: tf.Session.reset(""), None),
    "its device": (
        lambda w, s: [(d.name, d.device_type) for d in s.list_devices()],
        [("/job:localhost/replica:0/task:0/device:CPU:0", "CPU")],
    ),
}


@pytest.mark.parametrize("case", VALUES)
def test_values(world: World, case: str) -> None:
    call, want = VALUES[case]
    with tf.Session() as session:
        found = call(world, session)
    assert found == want and type(found) is type(want if not np.isscalar(want) or isinstance(want, bytes) else found)


def _elsewhere() -> Any:
    with tf.Graph().as_default():
        return tf.constant(1)


def _closed(session: tf.Session) -> tf.Session:
    session.close()
    return session


ERRORS: dict[str, tuple[Case, type[BaseException], str]] = {
    "an int too large for int8": (
        lambda w, s: s.run(w.i8, {w.i8: 300}),
        TypeError,
        "300 does not fit int8.*larger",
    ),
    "an int too large for int32": (lambda w, s: s.run(w.i, {w.i: 2**40}), TypeError, "does not fit int32"),
    "an int for a bool": (lambda w, s: s.run(w.b, {w.b: 2}), TypeError, "2 does not fit bool"),
    "a float cut to an int (TF: silently)": (lambda w, s: s.run(w.i, {w.i: 1.5}), TypeError, "cut to int32"),
    "a complex number for a float (TF: silently)": (
        lambda w, s: s.run(w.f, {w.f: np.array([1j, 1])}),
        TypeError,
        "imaginary",
    ),
    "text for floats": (lambda w, s: s.run(w.f, {w.f: ["a", "b"]}), ValueError, "'f:0'"),
    "an int for text": (lambda w, s: s.run(w.s, {w.s: 5}), TypeError, "'s:0'"),
    "None": (lambda w, s: s.run(w.f, {w.f: None}), ValueError, "'f:0'"),
    "rows of different lengths": (lambda w, s: s.run(w.f, {w.f: [[1], [1, 2]]}), ValueError, "inhomogeneous"),
    "a tensor as a value": (lambda w, s: s.run(w.f, {w.f: w.two}), TypeError, "value of a feed cannot be a Tensor"),
    "another shape": (
        lambda w, s: s.run(w.f, {w.f: [1, 2, 3]}),
        ValueError,
        r"Cannot feed value of shape \(3,\) for Tensor 'f:0', which has shape \(2,\)",
    ),
    "an operation as a key": (
        lambda w, s: s.run(w.i, {w.i.op: 5}),
        TypeError,
        "Cannot interpret feed_dict key as Tensor",
    ),
    "a key without its port": (
        lambda w, s: s.run(w.i, {"i": 5}),
        TypeError,
        "'i' refers to an Operation",
    ),
    "a key with a port too many": (lambda w, s: s.run(w.i, {"i:9": 5}), TypeError, "exists but only has 1 outputs"),
    "a number as a key": (lambda w, s: s.run(w.i, {5: 5}), TypeError, "Can not convert a int into a Tensor"),
    "a key of another graph": (lambda w, s: s.run(w.i, {_elsewhere(): 1}), TypeError, "not an element of this graph"),
    "keys and values that differ in number": (lambda w, s: s.run(w.i, {(w.i, w.c): (5,)}), ValueError, "2 elements"),
    "feeds in a list": (lambda w, s: s.run(w.i, [(w.i, 5)]), TypeError, "must be a dictionary"),
    "fetching None": (lambda w, s: s.run(None), TypeError, "None.*invalid type NoneType"),
    "fetching None in a list": (lambda w, s: s.run([None]), TypeError, "invalid type NoneType"),
    "fetching a number": (lambda w, s: s.run(5), TypeError, "invalid type int.*Can not convert a int into a Tensor or"),
    "fetching a set": (lambda w, s: s.run({w.c}), TypeError, "invalid type set"),
    "fetching no such operation": (lambda w, s: s.run("x"), ValueError, "'x' refers to an Operation not in the graph"),
    "fetching no such tensor": (lambda w, s: s.run("x:0"), ValueError, "The operation, 'x', does not exist"),
    "fetching no such port": (lambda w, s: s.run("v:3"), ValueError, "'v', exists but only has 1 outputs"),
    "fetching an odd name": (lambda w, s: s.run("v:3:4"), ValueError, "'v:3:4' is not a valid Tensor name"),
    "fetching a control edge": (lambda w, s: s.run("^v"), ValueError, r"'\^v' refers to an Operation not in the graph"),
    "fetching from another graph": (lambda w, s: s.run(_elsewhere()), ValueError, "not an element of this graph"),
    "an unfed placeholder": (
        lambda w, s: s.run(w.i),
        tf.errors.InvalidArgumentError,
        "You must feed a value for placeholder tensor 'i' with dtype int32",
    ),
    "a variable before its initializer": (
        lambda w, s: s.run(w.v),
        tf.errors.FailedPreconditionError,
        "Attempting to use uninitialized value v",
    ),
    "an empty graph": (lambda w, s: tf.Session(graph=tf.Graph()).run([]), RuntimeError, "Session graph is empty"),
    "a callable with a value too few": (lambda w, s: s.make_callable(w.f, [w.f])(), ValueError, "takes 1 feeds, got 0"),
    "a callable with another shape": (
        lambda w, s: s.make_callable(w.f, [w.f])([1, 2, 3]),
        ValueError,
        r"shape \(3,\) for Tensor 'f:0'",
    ),
    "a callable's feeds not in a list": (
        lambda w, s: s.make_callable(w.f, w.f),
        TypeError,
        "`feed_list` must be a list",
    ),
    "running a closed session": (lambda w, s: _closed(s).run(w.c), RuntimeError, "closed Session"),
    "a callable of a closed session": (lambda w, s: _closed(s).make_callable(w.c), RuntimeError, "closed Session"),
    "no ConfigProto": (lambda w, s: tf.Session(config=5), TypeError, "`config` must be a tf.ConfigProto.*'int'"),
    "no Graph": (lambda w, s: tf.Session(graph=5), TypeError, "`graph` must be a tf.Graph.*'int'"),
    "no target": (lambda w, s: tf.Session(5), TypeError, "`target` must be a string.*'int'"),
    "entering a session twice": (lambda w, s: s.__enter__(), RuntimeError, "not re-entrant"),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(world: World, case: str) -> None:
    call, kind, words = ERRORS[case]
    with tf.Session() as session, pytest.raises(kind, match=f"(?s){words}"):
        call(world, session)


def test_a_tensor_may_be_shut_to_feeds(world: World) -> None:
    world.graph.prevent_feeding(world.i)
    assert not world.graph.is_feedable(world.i) and world.graph.is_feedable(world.f)
    with tf.Session() as session:
        for key in (world.i, "i:0", (world.i,)):
            with pytest.raises(ValueError, match="Tensor 'i:0' may not be fed"):
                session.run(world.c, {key: (1,) if isinstance(key, tuple) else 1})


def test_a_finalized_graph_runs_and_does_not_grow(world: World) -> None:
    world.graph.finalize()
    with tf.Session() as session:
        assert session.run(world.c) == 3
        with pytest.raises(RuntimeError, match="Graph is finalized and cannot be modified"):
            tf.constant(1)


def test_indexed_slices_are_fetched_and_fed_whole(world: World) -> None:
    rows = tf.IndexedSlices(world.two * 2, tf.constant([0, 3]), tf.constant([4]))
    loose = tf.IndexedSlices(world.two, tf.constant([0, 3]))
    with tf.Session() as session:
        found = session.run([rows, loose], {rows: ([5.0, 6.0], [1, 2], [9])})
        assert [part.tolist() for part in found[0]] == [[5, 6], [1, 2], [9]]
        assert found[1].indices.tolist() == [0, 3] and found[1].dense_shape is None


def test_attrs_classes_keep_their_class(world: World) -> None:
    class Point:
        """As the attrs package makes classes."""

        __attrs_attrs__ = (type("x", (), {"name": "x"}), type("y", (), {"name": "y"}))

        def __init__(self, x: Any, y: Any):
            self.x, self.y = x, y

    with tf.Session() as session:
        point = session.run(Point(world.c, [world.two]))
    assert isinstance(point, Point) and point.x == 3 and point.y[0].tolist() == [1, 2]
