"""Spark looks for packages of this kind of name: `spark.read.format("tfrecords")` works without a call."""

from sparkflow_connectors.spark_tfrecord import TFRecordsSource as DefaultSource

__all__ = ["DefaultSource"]
