"""Which variables have no value yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from sparkflow.framework.apply import apply_op, convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array_join, array_slice
from sparkflow.ops.variables import global_variables, is_variable_initialized, local_variables
from sparkflow_runtime.wire.dtypes import as_dtype


def report_uninitialized_variables(
    var_list: Iterable[Any] | None = None, name: str = "report_uninitialized_variables"
) -> Tensor:
    """1-D string tensor: the names (without ':0') of the variables not yet assigned, in their order; global and local
    ones by default."""
    found = global_variables() + local_variables() if var_list is None else list(var_list)
    with get_default_graph().name_scope(name):
        if not found:
            return convert_to_tensor([], dtype=as_dtype("string"))
        names = convert_to_tensor([v.op.name for v in found])
        return array_slice.boolean_mask(names, apply_op("LogicalNot", [_initialized(found)]))


def _initialized(found: list[Any]) -> Tensor:
    """bool [variables]. Each device stacks its own, so that it sends one tensor and not one a variable."""
    by_device: dict[str, list[int]] = {}
    for at, variable in enumerate(found):
        by_device.setdefault(variable.device, []).append(at)
    stacked = []
    for device, places in by_device.items():
        with get_default_graph().device(device or None):
            stacked.append(array_join.stack([is_variable_initialized(found[at]) for at in places]))
    if len(stacked) == 1:
        return stacked[0]
    grouped = [at for places in by_device.values() for at in places]
    return array_slice.gather(array_join.concat(stacked, 0), np.argsort(grouped))


def assert_variables_initialized(var_list: Iterable[Any] | None = None) -> Tensor | None:
    """The tensor of report_uninitialized_variables with its shape left open; None where there are no variables."""
    found = global_variables() + local_variables() if var_list is None else list(var_list)
    return report_uninitialized_variables(found) if found else None
