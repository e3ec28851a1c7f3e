"""What a Saver does with the files of its directory, where other processes may be saving, too.

A chief that was stopped (a paused machine, a swapped-out container) while another took its place is *overtaken*: it
wakes up with the variables of earlier steps. The state file then stays as the other wrote it, and so do the other's
checkpoints.
"""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import re
from collections.abc import Iterator

from sparkflow.train import checkpoint_state
from sparkflow.train.saver_graph import PARTS
from sparkflow_runtime.wire import temporaries
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX

_log = logging.getLogger("sparkflow")
_NUMBERED = re.compile(r"(.*)-(\d+)", re.DOTALL)


def named_by_another(prefix: str, latest_filename: str | None) -> list[str]:
    """The checkpoints that the state file beside `prefix` names, the newest first, as absolute paths; none where this
    process was the last to write it, or never did."""
    directory = os.path.dirname(prefix)
    if not checkpoint_state.is_of_another(directory, latest_filename):
        return []
    state = checkpoint_state.get_checkpoint_state(directory, latest_filename)
    if state is None:
        return []
    return [os.path.abspath(p) for p in (state.model_checkpoint_path, *reversed(state.all_model_checkpoint_paths))]


def overtaken_by(prefix: str, named: list[str]) -> str | None:
    """The newest of `named` (see named_by_another), where it is not of an earlier step than `prefix`."""
    found = [_NUMBERED.fullmatch(name) for name in (*named[:1], os.path.abspath(prefix))]
    if len(found) < 2 or found[0] is None or found[1] is None or found[0][1] != found[1][1]:
        return None
    return named[0] if int(found[0][2]) >= int(found[1][2]) else None


def tell_overtaken(prefix: str, other: str, kept: str) -> None:
    """Warn of it; kept: what became of the checkpoint `prefix`."""
    _log.warning(
        "Saver: another process has saved %s since this one last saved to that directory, so %s, of no later step, %s. "
        "Was this process stopped while another took its place? End it, or give it a directory of its own.",
        other, prefix, kept,
    )  # fmt: skip


@contextlib.contextmanager
def marked(parts: str) -> Iterator[None]:
    """While this process waits for what tasks save in the folder `parts`, a file beside it says so."""
    mark = temporaries.temporary(parts)
    with contextlib.suppress(OSError):  # whatever is wrong with the directory, the save says it
        os.makedirs(os.path.dirname(mark) or ".", exist_ok=True)
        with open(mark, "xb"):
            pass
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.remove(mark)


def remove_left_behind(save_path: str, latest_filename: str) -> None:
    """What a process that was killed as it saved to that path has left, behind a save that was just recorded."""
    directory, base = os.path.split(save_path)
    numbered = rf"{re.escape(base)}(-\d+)?({PARTS}({temporaries.MARK}.*)?|\..*{temporaries.MARK}.*)"
    names = re.compile(rf"{numbered}|{re.escape(latest_filename)}{temporaries.MARK}.*")
    now = os.stat(os.path.join(directory, latest_filename)).st_mtime
    temporaries.remove_abandoned(directory or ".", names, PARTS, now)


def remove_checkpoint(
    checkpoint_prefix: str, checkpoint_format_version: int = 2, meta_graph_suffix: str = "meta"
) -> None:
    """Remove its files: the index first, so that no half of it counts as a checkpoint."""
    stem = glob.escape(checkpoint_prefix)
    whole = [checkpoint_prefix + INDEX_SUFFIX, f"{checkpoint_prefix}.{meta_graph_suffix}"]
    for path in [*whole, *glob.glob(stem + ".data-*"), *glob.glob(stem + INDEX_SUFFIX + ".tmp-*")]:
        if os.path.exists(path):
            os.remove(path)
