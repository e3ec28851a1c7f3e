"""tf.audio."""

from sparkflow.ops.audio import decode_wav, encode_wav
