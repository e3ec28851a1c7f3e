"""The weights of the best epoch: a checkpoint in a folder beside those that a training goes on from."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import sparkflow as tf
from sparkflow_runtime.wire.errors import DataLossError, InvalidArgumentError, NotFoundError

BEST = "best"


def why_none(session: Any, saver: Any, checkpoint_dir: str) -> str:
    """Why no model can be made of them, in words; "" where one can. Each task reads and checks what it would restore,
    as a damaged file would be found only when the model scores. After that such a checkpoint is nobody's any more.

    saver: made them, in the session's graph.
    """
    folder = os.path.join(checkpoint_dir, BEST)
    path = tf.train.latest_checkpoint(folder)
    if path is None:
        return f"are gone from {BEST!r}"
    filename = saver.saver_def.filename_tensor_name
    scope = filename.rpartition("/")[0] + "/"
    reads = [op for op in session.graph.get_operations() if op.type == "RestoreV2" and op.name.startswith(scope)]
    try:
        session.run(reads, {filename: path})
    except (DataLossError, InvalidArgumentError, NotFoundError) as error:
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, "checkpoint"))
        return f"are damaged ({error.message.splitlines()[0]})"
    return ""
