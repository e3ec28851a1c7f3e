"""tf.contrib.training: strategies for replica_device_setter."""

from sparkflow.train.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn

__all__ = ["GreedyLoadBalancingStrategy", "byte_size_load_fn"]
