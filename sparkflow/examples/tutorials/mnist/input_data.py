"""MNIST from files of this machine, under the name by which tutorials import it."""

from sparkflow.contrib.learn.datasets.mnist import DataSet, dense_to_one_hot, read_data_sets

__all__ = ["DataSet", "dense_to_one_hot", "read_data_sets"]
