"""The learning phase of tf.keras.backend: whether layers that are called without `training` train."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.ops import array
from sparkflow.ops.control_flow_cond import smart_cond

_PHASE = "Keras' learning phase"  # of Graph.extra


def learning_phase() -> Any:
    """0 or 1 where set_learning_phase said so, else a scalar of the graph that is False unless it is fed."""
    graph = get_default_graph()
    if _PHASE not in graph.extra:
        with graph.name_scope(None), graph.control_dependencies(None):
            graph.extra[_PHASE] = array.placeholder_with_default(False, (), "keras_learning_phase")
    return graph.extra[_PHASE]


def set_learning_phase(value: int) -> None:
    """Of the default graph: 1, training, or 0. Raises ValueError on anything else."""
    if value not in (0, 1):
        raise ValueError(f"Expected learning phase to be 0 or 1, got {value!r}")
    get_default_graph().extra[_PHASE] = int(value)


@contextmanager
def learning_phase_scope(value: int) -> Any:
    """The learning phase inside."""
    graph = get_default_graph()
    before = graph.extra.get(_PHASE)
    set_learning_phase(value)
    try:
        yield
    finally:
        if before is None:
            graph.extra.pop(_PHASE, None)
        else:
            graph.extra[_PHASE] = before


def in_train_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """x while training, else alt; each a tensor or a function that makes one. training: the learning phase if None."""
    phase = learning_phase() if training is None else training
    return smart_cond(phase, _function(x), _function(alt))


def in_test_phase(x: Any, alt: Any, training: Any = None) -> Any:
    """x but while training, then alt."""
    return in_train_phase(alt, x, training)


def _function(value: Any) -> Callable[[], Any]:
    return value if callable(value) else lambda: value


def learning(training: Any) -> Any:
    """What training means in a layer: the learning phase where it was called without."""
    return learning_phase() if training is None else training
