"""tf.contrib.cluster_resolver: tf.distribute.cluster_resolver."""

from sparkflow.train.cluster_resolver import ClusterResolver, SimpleClusterResolver, TFConfigClusterResolver
