"""Training without parameter servers: collectives between workers, and the optimizer over them; how clusters are
found; and TensorFlow's strategies, in which a process is one replica.

The collectives take TensorFlow's keys (tensorflow/python/ops/collective_ops.py); the optimizer and the hook do what
Horovod's of these names do.
"""

from sparkflow.ops.collective import all_gather, all_reduce, broadcast_recv, broadcast_send, reduce_scatter
from sparkflow.session.server import Server
from sparkflow.train import cluster_resolver
from sparkflow.train.distributed_optimizer import (
    BroadcastGlobalVariablesHook,
    DistributedOptimizer,
    broadcast_global_variables,
)
from sparkflow.train.strategies import (
    CrossDeviceOps,
    HierarchicalCopyAllReduce,
    MirroredStrategy,
    NcclAllReduce,
    OneDeviceStrategy,
    ReductionToOneDevice,
    experimental,
)
from sparkflow.train.strategy import (
    InputContext,
    ReduceOp,
    Strategy,
    get_loss_reduction,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)

__all__ = [
    "BroadcastGlobalVariablesHook",
    "CrossDeviceOps",
    "DistributedOptimizer",
    "HierarchicalCopyAllReduce",
    "InputContext",
    "MirroredStrategy",
    "NcclAllReduce",
    "OneDeviceStrategy",
    "ReduceOp",
    "ReductionToOneDevice",
    "Server",
    "Strategy",
    "all_gather",
    "all_reduce",
    "broadcast_global_variables",
    "broadcast_recv",
    "broadcast_send",
    "cluster_resolver",
    "experimental",
    "get_loss_reduction",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "reduce_scatter",
]
