"""tf.version: of the TensorFlow whose names and GraphDefs these are; SPARKFLOW_VERSION is the library's own."""

VERSION = GIT_VERSION = "1.15.0"  # tf.__version__ too, and nothing more there: programs split it at its dots
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 1882
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
GRAPH_DEF_VERSION_MIN_CONSUMER = 0


def __getattr__(name: str) -> str:
    if name == "SPARKFLOW_VERSION":
        from importlib.metadata import version  # dear to import

        return version("sparkflow-graph")
    raise AttributeError(f"module 'sparkflow.version' has no attribute {name!r}")
