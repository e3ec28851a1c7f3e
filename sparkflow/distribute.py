"""tf.distribute, as far as clusters are found by it."""

from sparkflow.train import cluster_resolver

__all__ = ["cluster_resolver"]
