"""tf.version: of the TensorFlow whose names and GraphDefs these are."""

VERSION = GIT_VERSION = "1.15.0"
COMPILER_VERSION = ""
GRAPH_DEF_VERSION = 1882
GRAPH_DEF_VERSION_MIN_PRODUCER = 0
GRAPH_DEF_VERSION_MIN_CONSUMER = 0


def with_own_version() -> str:
    """`tf.__version__`: scripts ask it which TensorFlow this is, people which sparkflow; `1.15.0+sparkflow.0.1.0`."""
    from importlib.metadata import version  # dear to import

    return f"{VERSION}+sparkflow.{version('sparkflow-graph')}"
