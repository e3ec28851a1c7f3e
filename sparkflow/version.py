"""tf.version: of the TensorFlow whose names and GraphDefs these are; `sparkflow.__version__` is sparkflow's own."""

VERSION = GIT_VERSION = "1.15.0"
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 1882
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
GRAPH_DEF_VERSION_MIN_CONSUMER = 0
