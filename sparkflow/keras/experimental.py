"""tf.keras.experimental."""

from sparkflow.keras.layers.features import SequenceFeatures

__all__ = ["SequenceFeatures"]
