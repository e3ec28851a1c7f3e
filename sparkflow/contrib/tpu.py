"""tf.contrib.tpu: tf.tpu and tf.estimator.tpu."""

from sparkflow.estimator.tpu import InputPipelineConfig, RunConfig, TPUConfig, TPUEstimator, TPUEstimatorSpec
from sparkflow.tpu import CrossShardOptimizer, cross_replica_sum
