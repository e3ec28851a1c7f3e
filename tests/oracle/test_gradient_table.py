"""Where TensorFlow says that an op passes no gradient on, so does the table of gradients: none is refused there."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from tensorflow.python.framework.ops import gradient_registry

import sparkflow
from sparkflow.framework import registry
from sparkflow.grads.registry import listed
from tests.oracle.engines import tf


def test_what_has_no_gradient_is_listed() -> None:
    assert tf.py_func  # its module fills TensorFlow's table
    for module in pkgutil.iter_modules([f"{sparkflow.__path__[0]}/ops"], "sparkflow.ops."):
        import_module(module.name)
    theirs = {op for op in gradient_registry.list() if gradient_registry.lookup(op) is None}
    assert sorted(theirs & set(registry.registered()) - {op for op in theirs if listed(op)}) == []
