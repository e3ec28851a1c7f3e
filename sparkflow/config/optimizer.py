"""tf.config.optimizer: which passes over the graph sessions make."""

from __future__ import annotations

from typing import Any

from sparkflow.session.defaults import settings
from sparkflow_runtime.wire.errors import UnimplementedError

_SWITCHES = (
    *("layout_optimizer", "constant_folding", "shape_optimization", "remapping", "arithmetic_optimization"),
    *("dependency_optimization", "loop_optimization", "function_optimization", "debug_stripper"),
    *("scoped_allocator_optimization", "pin_to_host_optimization", "implementation_selector", "auto_mixed_precision"),
    *("auto_mixed_precision_onednn_bfloat16", "auto_mixed_precision_mkl"),
)
_PLAIN = ("disable_model_pruning", "disable_meta_optimizer")
_OFF, _ON = 2, 1


def _rewrites() -> Any:
    return settings().graph_options.rewrite_options


def get_jit() -> str:
    """An empty text: there is no XLA."""
    return ""


def set_jit(enabled: Any) -> None:
    """Raises UnimplementedError where it is to be on."""
    if enabled not in (False, "", None):
        raise UnimplementedError(f"tf.config.optimizer.set_jit({enabled!r}): sparkflow has no XLA; leave the call out")


def get_experimental_options() -> dict[str, bool]:
    """The options that were set, and the two that always have a value."""
    rewrites = _rewrites()
    found = {name: getattr(rewrites, name) == _ON for name in _SWITCHES if getattr(rewrites, name)}
    return {**found, **{name: bool(getattr(rewrites, name)) for name in _PLAIN}}


def set_experimental_options(options: dict[str, bool]) -> None:
    """options: a pass of RewriterConfig and whether it is on. Raises ValueError on one that there is not."""
    unknown = sorted(set(options) - {*_SWITCHES, *_PLAIN, "min_graph_nodes"})
    if unknown:
        raise ValueError(
            f"tf.config.optimizer: there are no options {unknown}; there are {sorted([*_SWITCHES, *_PLAIN])}"
        )
    rewrites = _rewrites()
    for name, value in options.items():
        setattr(rewrites, name, value if name not in _SWITCHES else _ON if value else _OFF)
