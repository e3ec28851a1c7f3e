"""The protobuf messages both sides exchange, from the `tensorboard` package (it carries TensorFlow's own .proto
files)."""

from tensorboard.compat.proto.attr_value_pb2 import AttrValue
from tensorboard.compat.proto.cluster_pb2 import ClusterDef, JobDef
from tensorboard.compat.proto.config_pb2 import (
    ConfigProto,
    GPUOptions,
    GraphOptions,
    OptimizerOptions,
    RunMetadata,
    RunOptions,
)
from tensorboard.compat.proto.cost_graph_pb2 import CostGraphDef
from tensorboard.compat.proto.function_pb2 import FunctionDef
from tensorboard.compat.proto.graph_pb2 import GraphDef
from tensorboard.compat.proto.meta_graph_pb2 import MetaGraphDef
from tensorboard.compat.proto.node_def_pb2 import NodeDef
from tensorboard.compat.proto.op_def_pb2 import OpDef
from tensorboard.compat.proto.rewriter_config_pb2 import RewriterConfig
from tensorboard.compat.proto.step_stats_pb2 import StepStats
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

__all__ = [
    "AttrValue",
    "ClusterDef",
    "ConfigProto",
    "CostGraphDef",
    "FunctionDef",
    "GPUOptions",
    "GraphDef",
    "GraphOptions",
    "HistogramProto",
    "JobDef",
    "MetaGraphDef",
    "NodeDef",
    "OpDef",
    "OptimizerOptions",
    "RewriterConfig",
    "RunMetadata",
    "RunOptions",
    "StepStats",
    "Summary",
    "TensorProto",
    "TensorShapeProto",
]
