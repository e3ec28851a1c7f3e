"""tf.contrib.factorization: k-means, as a graph and as an Estimator, and weighted alternating least squares."""

from sparkflow.contrib.wals import WALSModel
from sparkflow.estimator.clustering import (
    COSINE_DISTANCE,
    KMEANS_PLUS_PLUS_INIT,
    RANDOM_INIT,
    SQUARED_EUCLIDEAN_DISTANCE,
    KMeans,
)
from sparkflow.estimator.kmeans import KMeansClustering
