"""tf.keras.preprocessing: sequences of one length, and words as numbers."""

from sparkflow.keras.preprocessing import sequence, text

__all__ = ["sequence", "text"]
