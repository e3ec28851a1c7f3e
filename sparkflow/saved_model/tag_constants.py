"""tf.saved_model.tag_constants: what a MetaGraph is for."""

SERVING, TRAINING, EVAL, GPU, TPU = "serve", "train", "eval", "gpu", "tpu"
