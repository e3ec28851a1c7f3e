"""tf.contrib.eager: there is no eager mode here, and asking for it says so."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.wire.errors import UnimplementedError


def enable_eager_execution(*args: Any, **kwargs: Any) -> None:
    """Raises UnimplementedError: sparkflow builds graphs, and a Session runs them."""
    raise UnimplementedError(
        "sparkflow has no eager mode: build the graph, and run it with tf.Session().run(...). "
        "Leave enable_eager_execution() out"
    )


def executing_eagerly() -> bool:
    """False, always."""
    return False


in_eager_mode = executing_eagerly


def in_graph_mode() -> bool:
    """True, always."""
    return True
