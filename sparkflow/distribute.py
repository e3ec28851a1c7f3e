"""Training without parameter servers: collectives between workers, and the optimizer over them; and how clusters are
found.

The collectives take TensorFlow's keys (tensorflow/python/ops/collective_ops.py); the optimizer and the hook do what
Horovod's of these names do.
"""

from sparkflow.ops.collective import all_gather, all_reduce, broadcast_recv, broadcast_send, reduce_scatter
from sparkflow.train import cluster_resolver
from sparkflow.train.distributed_optimizer import (
    BroadcastGlobalVariablesHook,
    DistributedOptimizer,
    broadcast_global_variables,
)

__all__ = [
    "BroadcastGlobalVariablesHook",
    "DistributedOptimizer",
    "all_gather",
    "all_reduce",
    "broadcast_global_variables",
    "broadcast_recv",
    "broadcast_send",
    "cluster_resolver",
    "reduce_scatter",
]
