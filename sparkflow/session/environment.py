"""What the runtime found out about its machine, for `python -m sparkflow doctor`."""

from sparkflow_runtime.environment import Finding, findings

__all__ = ["Finding", "findings"]
