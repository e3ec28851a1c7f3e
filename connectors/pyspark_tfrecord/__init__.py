"""Spark looks for packages of this kind of name: `spark.read.format("tfrecord")` works without a call."""

from sparkflow_connectors.spark_tfrecord import TFRecordSource as DefaultSource

__all__ = ["DefaultSource"]
