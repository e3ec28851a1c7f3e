"""What an iterator of an imported graph gives: placeholders of its types and shapes."""

from __future__ import annotations

from sparkflow.framework.dataset_nodes import GIVING
from sparkflow.framework.functions import Call, expands
from sparkflow.framework.graph import Tensor
from sparkflow.ops import array
from sparkflow_runtime.wire.attrs import decode


@expands(*GIVING, outputs=("components",))
def _given(call: Call) -> list[Tensor]:
    types, shapes = (decode(call.node.attr[key]) for key in ("output_types", "output_shapes"))
    return [
        array.placeholder(dtype, shape.dims, name=f"component_{i}")
        for i, (dtype, shape) in enumerate(zip(types, shapes, strict=True))
    ]
