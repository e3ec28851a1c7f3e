"""Names that are sparkflow's own and may still change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.operation import Tensor
from sparkflow.session.explain import explain, explain_graph_def
from sparkflow_runtime.wire.edges import CARRIED, check_carried

__all__ = ["any_rows", "carried_as", "explain", "explain_graph_def"]


@contextmanager
def carried_as(dtype: str) -> Iterator[None]:
    """float32 values of the ops made inside travel between tasks as `dtype`: "bfloat16" or "float16" in half the bytes,
    "float32" as they are, whatever the session's GraphOptions.enable_bfloat16_sendrecv says. It holds for collectives
    too. Tensors of less than 256 elements travel as they are."""
    with get_default_graph()._attr_scope({CARRIED: check_carried(dtype, "carried_as")}):
        yield


def any_rows(tensor: Tensor) -> None:
    """Let a feed of the tensor have any number of rows, whatever its static shape says: that is checked by what is fed.
    Ops that were made of it keep the shapes that they have."""
    if tensor.shape.rank:
        tensor._shape = (None, *(tensor._shape or ())[1:])
