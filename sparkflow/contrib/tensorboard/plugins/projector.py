"""What TensorBoard's projector is to show: which variables of the checkpoint are embeddings, and their rows' labels."""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo, ProjectorConfig, SpriteMetadata

__all__ = ["EmbeddingInfo", "ProjectorConfig", "SpriteMetadata", "visualize_embeddings"]

_FILE = "projector_config.pbtxt"


def visualize_embeddings(summary_writer: Any, config: ProjectorConfig) -> None:
    """Write the configuration where TensorBoard looks for it.

    summary_writer: a tf.summary.FileWriter, or its folder. Raises ValueError where there is no folder.
    """
    given = summary_writer
    logdir = given if isinstance(given, (str, os.PathLike)) else given.get_logdir()
    if not logdir:
        raise ValueError("Summary writer must have a logdir")
    os.makedirs(logdir, exist_ok=True)
    with open(os.path.join(logdir, _FILE), "w") as file:
        file.write(text_format.MessageToString(config))
