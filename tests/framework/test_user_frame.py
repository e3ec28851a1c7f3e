"""An op's place in the user's program."""

from __future__ import annotations

import sys
from typing import Any

import sparkflow as tf


def test_decorators_are_not_the_users_program(graph: Any) -> None:
    """Those who build many nodes at once stop the garbage collector meanwhile, by a decorator of contextlib."""
    tf.Variable(1.0)
    before = set(graph.get_operations())
    here = sys._getframe().f_lineno + 1
    tf.train.Saver()
    made = [op.traceback_frame for op in graph.get_operations() if op not in before]
    assert made and set(made) == {(__file__, here)}
