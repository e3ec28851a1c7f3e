"""What the runtime found out about its machine and what it builds for it, for `sparkflow doctor` and `compile`."""

from sparkflow_runtime.environment import Finding, findings
from sparkflow_runtime.kernels.machine_ahead import build, missing
from sparkflow_runtime.kernels.machine_code import folder_to_keep_in
from sparkflow_runtime.threads import processors

__all__ = ["Finding", "build", "findings", "folder_to_keep_in", "missing", "processors"]
