"""Training without parameter servers: collectives between workers, and the optimizer over them; how clusters are
found; and the strategy of one replica, which is all that there is of TensorFlow's strategies.

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
from sparkflow.train.strategy import (
    InputContext,
    ReduceOp,
    get_loss_reduction,
    get_replica_context,
    get_strategy,
    has_strategy,
    in_cross_replica_context,
)

__all__ = [
    "BroadcastGlobalVariablesHook",
    "DistributedOptimizer",
    "InputContext",
    "ReduceOp",
    "Server",
    "all_gather",
    "all_reduce",
    "broadcast_global_variables",
    "broadcast_recv",
    "broadcast_send",
    "cluster_resolver",
    "get_loss_reduction",
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "reduce_scatter",
]
