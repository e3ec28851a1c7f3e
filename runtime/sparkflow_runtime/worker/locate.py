"""Which node an error arose at."""

from __future__ import annotations

from sparkflow_runtime.wire.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
)
from sparkflow_runtime.wire.protos import NodeDef
from sparkflow_runtime.worker.interpreted import node_at
from sparkflow_runtime.worker.units import Unit

_ERRORS = {
    MemoryError: ResourceExhaustedError,
    ValueError: InvalidArgumentError,
    IndexError: InvalidArgumentError,
    OverflowError: InvalidArgumentError,
    ZeroDivisionError: InvalidArgumentError,
}


def locate(error: BaseException, node: NodeDef | None) -> OpError:
    """The error as an OpError that names its node, op and device."""
    if isinstance(error, OpError):
        found = error
    elif isinstance(error, Exception):
        kind = next((cls for base, cls in _ERRORS.items() if isinstance(error, base)), InternalError)
        text = str(error) if kind is InvalidArgumentError else f"{type(error).__name__}: {error}"
        found = kind(None, None, text)
        found.__cause__ = error
    else:
        found = CancelledError(f"Interrupted by {type(error).__name__}")
    node = getattr(error, "failed_node", node)  # of several in one
    node = found.node_def or node  # a kernel may have named its own
    if node is not None and found.device is None:
        found.node_def, found.device = node, node.device
        found.message = f"{found.message}\n\t [[node {node.name} ({node.op}) on {node.device}]]"
    return found


def bare(error: OpError | None) -> OpError | None:
    """What another task is told of it. Its tracebacks would hold the step's values, and a step its error."""
    if error is not None:
        error.with_traceback(None).__cause__ = error.__context__ = None
    return error


def failing_node(error: BaseException, unit: Unit) -> str:
    """The name of a unit's node that raised; "" where none did."""
    if unit.segment is None:
        return unit.label
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code.co_filename == unit.segment.filename:
            return unit.segment.nodes.get(traceback.tb_lineno) or ""
        if name := node_at(traceback, unit.segment):
            return name
        traceback = traceback.tb_next
    return ""
