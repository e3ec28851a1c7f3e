"""tf.keras.datasets: small data sets, downloaded once into ~/.keras/datasets."""

from sparkflow.keras.datasets import boston_housing, fashion_mnist, mnist
