"""What is fetched again takes the plan made for it, and what only looks alike one of its own."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.session import fetches

Pair, Couple = namedtuple("Pair", "a b"), namedtuple("Couple", "x y")


@pytest.fixture
def plans(monkeypatch):
    """The plans that are made."""
    made, new = [], fetches.FetchPlan.__init__
    monkeypatch.setattr(fetches.FetchPlan, "__init__", lambda self, *args: made.append(self) or new(self, *args))
    return made


def test_nested_structures_are_planned_once(plans):
    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.Session() as session:
        for _ in range(3):
            assert session.run([a, [b, (a, b)]]) == [1.0, [2.0, (1.0, 2.0)]]
            assert session.run({"a": a, "rest": [b, {"again": a}]}) == {"a": 1.0, "rest": [2.0, {"again": 1.0}]}
            assert session.run(Pair([a], b)) == Pair([1.0], 2.0)
    assert len(plans) == 3


def test_structures_that_are_equal_keep_their_kinds():
    a, b = tf.constant(1.0), tf.constant(2.0)
    with tf.Session() as session:
        kinds = [Pair, Couple, lambda *both: both, lambda *both: [*both], lambda *both: [[*both]]]
        for make in (*kinds, lambda *both: (Couple(*both), 1)[0], lambda *both: Pair(Couple(*both), both[0])):
            found, want = session.run(make(a, b)), make(1.0, 2.0)
            assert found == want and type(found) is type(want)
        assert type(session.run(Couple(Pair(a, b), a)).x) is Pair
        assert type(session.run(Couple(Couple(a, b), a)).x) is Couple
        assert session.run({"a": b, "b": a}) == {"a": 2.0, "b": 1.0} and session.run({"b": b, "a": a})["a"] == 1.0
        ordered = session.run(OrderedDict([("z", a), ("a", b)]))
        assert type(ordered) is OrderedDict and list(ordered.items()) == [("z", 1.0), ("a", 2.0)]


def test_a_list_that_changes_is_another():
    a, b, x = tf.constant(1.0), tf.constant(2.0), tf.placeholder(tf.float32)
    wanted = [a, [b]]
    with tf.Session() as session:
        assert session.run(wanted) == [1.0, [2.0]]
        wanted[1].append(x)
        assert session.run(wanted, {x: np.float32(7)}) == [1.0, [2.0, 7.0]]
        wanted[1].append(np.zeros(2))
        with pytest.raises(TypeError, match="Fetch"):
            session.run(wanted)
