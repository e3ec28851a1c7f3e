"""tf.contrib.learn.datasets: data sets that lie in files of this machine; nothing is downloaded."""

from sparkflow.contrib.learn.datasets import base, mnist
from sparkflow.contrib.learn.datasets.base import Dataset, Datasets
from sparkflow.contrib.learn.datasets.mnist import load_mnist
