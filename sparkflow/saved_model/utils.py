"""tf.saved_model.utils: tensors in signatures."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow_runtime.wire.tensor_proto import shape_proto


def build_tensor_info(tensor: Any) -> TensorInfo:
    """The name, type and static shape of a Tensor or SparseTensor."""
    info = TensorInfo(dtype=tensor.dtype.base_dtype.as_datatype_enum)
    info.tensor_shape.CopyFrom(shape_proto(tensor.get_shape().dims_))
    if isinstance(tensor, SparseTensor):
        info.coo_sparse.values_tensor_name = tensor.values.name
        info.coo_sparse.indices_tensor_name = tensor.indices.name
        info.coo_sparse.dense_shape_tensor_name = tensor.dense_shape.name
    else:
        info.name = tensor.name
    return info


def get_tensor_from_tensor_info(
    tensor_info: TensorInfo, graph: Graph | None = None, import_scope: str | None = None
) -> Any:
    """The tensor of the graph that a TensorInfo names."""
    graph, prefix = graph or get_default_graph(), f"{import_scope}/" if import_scope else ""
    if tensor_info.WhichOneof("encoding") == "coo_sparse":
        coo = tensor_info.coo_sparse
        names = (coo.indices_tensor_name, coo.values_tensor_name, coo.dense_shape_tensor_name)
        return SparseTensor(*(graph.get_tensor_by_name(prefix + n) for n in names))
    return graph.get_tensor_by_name(prefix + tensor_info.name)
