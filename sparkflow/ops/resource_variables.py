"""Whether variables that do not say `use_resource` are made with it."""

from __future__ import annotations

_by_default = [False]


def enable_resource_variables() -> None:
    """Variables made from now on are made with use_resource=True where they do not say it."""
    _by_default[0] = True


def disable_resource_variables() -> None:
    """Variables made from now on are made with use_resource=False where they do not say it."""
    _by_default[0] = False


def resource_variables_enabled() -> bool:
    """Whether variables are made with use_resource=True where they do not say it."""
    return _by_default[0]
