"""tf.saved_model.utils: tensors in signatures."""

from __future__ import annotations

from typing import Any

from tensorboard.compat.proto.meta_graph_pb2 import TensorInfo
from tensorboard.compat.proto.struct_pb2 import TypeSpecProto

from sparkflow.framework.graph import Graph, get_default_graph
from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.ragged import RaggedTensor
from sparkflow_runtime.wire.tensor_proto import shape_proto


def build_tensor_info(tensor: Any) -> TensorInfo:
    """The name, type and static shape of a Tensor or SparseTensor; of a RaggedTensor those of its parts."""
    if isinstance(tensor, RaggedTensor):
        return _of_ragged(tensor)
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
    """The tensor of the graph that a TensorInfo names. Raises ValueError on a kind of tensor that there is not here."""
    graph, prefix = graph or get_default_graph(), f"{import_scope}/" if import_scope else ""
    if tensor_info.WhichOneof("encoding") == "coo_sparse":
        coo = tensor_info.coo_sparse
        names = (coo.indices_tensor_name, coo.values_tensor_name, coo.dense_shape_tensor_name)
        return SparseTensor(*(graph.get_tensor_by_name(prefix + n) for n in names))
    if tensor_info.WhichOneof("encoding") == "composite_tensor":
        composite = tensor_info.composite_tensor
        if composite.type_spec.type_spec_class != TypeSpecProto.RAGGED_TENSOR_SPEC:
            raise ValueError(f"A signature has a {composite.type_spec.type_spec_class_name}, which is no tensor here")
        values, *splits = (graph.get_tensor_by_name(prefix + part.name) for part in composite.components)
        return RaggedTensor.from_nested_row_splits(values, splits, validate=False)
    return graph.get_tensor_by_name(prefix + tensor_info.name)


def _of_ragged(tensor: RaggedTensor) -> TensorInfo:
    """As RaggedTensorSpec of TensorFlow: (shape, dtype, ragged_rank, dtype of the splits)."""
    info = TensorInfo()
    spec, parts = info.composite_tensor.type_spec, [tensor.flat_values, *tensor.nested_row_splits]
    spec.type_spec_class, spec.type_spec_class_name = TypeSpecProto.RAGGED_TENSOR_SPEC, "RaggedTensorSpec"
    spec.num_flat_components = len(parts)
    state = spec.type_state.tuple_value.values
    state.add().tensor_shape_value.CopyFrom(shape_proto(tensor.shape.dims_))
    state.add().tensor_dtype_value = tensor.dtype.base_dtype.as_datatype_enum
    state.add().int64_value = tensor.ragged_rank
    state.add().tensor_dtype_value = tensor.row_splits.dtype.base_dtype.as_datatype_enum
    info.composite_tensor.components.extend(map(build_tensor_info, parts))
    return info
