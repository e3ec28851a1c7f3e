"""The `checkpoint` file of a directory, which says which checkpoints are there, and what is in one.

The file is TensorFlow's, in protobuf text format: model_checkpoint_path: "model.ckpt-20" and one
all_model_checkpoint_paths: "..." for each checkpoint kept, the newest last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import text_encoding

from sparkflow.framework.graph import Graph
from sparkflow.ops import io
from sparkflow_runtime.wire import checkpoint, temporaries
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX
from sparkflow_runtime.wire.dtypes import as_dtype
from sparkflow_runtime.wire.errors import NotFoundError, class_of

_written: dict[str, tuple[int, int] | None] = {}  # a state file that this process wrote -> its identity then


@dataclass
class CheckpointState:
    """What a `checkpoint` file says; paths are absolute, or relative to the working directory."""

    model_checkpoint_path: str = ""
    all_model_checkpoint_paths: list[str] = field(default_factory=list)
    all_model_checkpoint_timestamps: list[float] = field(default_factory=list)
    last_preserved_timestamp: float = 0.0


def get_checkpoint_state(checkpoint_dir: str, latest_filename: str | None = None) -> CheckpointState | None:
    """What the state file of the directory says; None where there is none or it cannot be read."""
    checkpoint_dir = os.fsdecode(checkpoint_dir)
    path = _state_path(checkpoint_dir, latest_filename)
    try:
        with open(path, encoding="utf-8") as file:
            fields = list(_fields(file.read()))
    except (FileNotFoundError, NotADirectoryError, UnicodeDecodeError, ValueError):
        return None
    state = CheckpointState()
    for key, text in fields:
        if key == "model_checkpoint_path":
            state.model_checkpoint_path = _joined(checkpoint_dir, text)
        elif key == "all_model_checkpoint_paths":
            state.all_model_checkpoint_paths.append(_joined(checkpoint_dir, text))
        elif key == "all_model_checkpoint_timestamps":
            state.all_model_checkpoint_timestamps.append(float(text))
        elif key == "last_preserved_timestamp":
            state.last_preserved_timestamp = float(text)
    return state if state.model_checkpoint_path else None


def _fields(text: str) -> Iterator[tuple[str, str]]:
    """Raises ValueError on a line that is not `key: value`."""
    for line in filter(None, (line.strip() for line in text.splitlines())):
        key, colon, value = line.partition(": ")
        if not colon:
            raise ValueError(f"checkpoint state: cannot read {line!r}")
        quoted = len(value) >= 2 and value[0] == value[-1] == '"'
        yield key, text_encoding.CUnescape(value[1:-1]).decode() if quoted else value


def _joined(directory: str, path: str) -> str:
    return path if os.path.isabs(path) else os.path.join(directory, path)


def _state_path(directory: str, latest_filename: str | None) -> str:
    return os.path.join(directory, latest_filename or "checkpoint")


def update_checkpoint_state(
    save_dir: str,
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
    save_relative_paths: bool = False,
) -> None:
    """Write the state file of `save_dir`, all at once: a reader sees the old one or the new one.

    Paths are written relative to save_dir when it is relative or save_relative_paths is set.
    Raises RuntimeError where the state file would have the name of the checkpoint.
    """
    save_dir, model_checkpoint_path = os.fsdecode(save_dir), os.fsdecode(model_checkpoint_path)
    path = _state_path(save_dir, latest_filename)
    if os.path.abspath(path) == os.path.abspath(model_checkpoint_path):
        raise RuntimeError(
            f"Save path {model_checkpoint_path!r} conflicts with path used for checkpoint state. "
            "Please use a different save path."
        )
    state = generate_checkpoint_state_proto(
        save_dir, model_checkpoint_path, all_model_checkpoint_paths, all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )  # fmt: skip
    if save_relative_paths and os.path.isabs(save_dir):  # without the working directory, which may be gone
        paths = [os.path.relpath(p, save_dir) for p in state.all_model_checkpoint_paths]
        state.model_checkpoint_path = os.path.relpath(state.model_checkpoint_path, save_dir)
        state.all_model_checkpoint_paths = paths
    lines = [f"model_checkpoint_path: {_quoted(state.model_checkpoint_path)}"]
    lines += [f"all_model_checkpoint_paths: {_quoted(p)}" for p in state.all_model_checkpoint_paths]
    lines += [f"all_model_checkpoint_timestamps: {t!r}" for t in state.all_model_checkpoint_timestamps]
    if last_preserved_timestamp is not None:
        lines.append(f"last_preserved_timestamp: {last_preserved_timestamp!r}")
    write_whole(path, "".join(line + "\n" for line in lines).encode())
    _written[os.path.abspath(path)] = _identity(path)


def is_of_another(checkpoint_dir: str, latest_filename: str | None = None) -> bool:
    """Whether a process that is not this one wrote the state file of the directory since this one last did."""
    path = _state_path(checkpoint_dir, latest_filename)
    own, now = _written.get(os.path.abspath(path)), _identity(path)
    return own is not None and now is not None and now != own


def _identity(path: str) -> tuple[int, int] | None:
    """Changes with every write of the file, as each is a new one; None where it is not there."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def generate_checkpoint_state_proto(
    save_dir: str, model_checkpoint_path: str, all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None, last_preserved_timestamp: float | None = None,
) -> CheckpointState:  # fmt: skip
    """What the state file of save_dir should say; the paths are relative to save_dir where that is relative.

    Raises ValueError where the timestamps are not as many as the paths, model_checkpoint_path among them.
    """
    paths, times = list(all_model_checkpoint_paths or []), list(all_model_checkpoint_timestamps or [])
    if model_checkpoint_path not in paths:
        paths.append(model_checkpoint_path)
    if times and len(times) != len(paths):
        raise ValueError(
            f"Checkpoint timestamps, if provided, must match checkpoint paths (got paths {paths}, timestamps {times})"
        )
    if not os.path.isabs(save_dir):
        model_checkpoint_path, *paths = (os.path.relpath(p, save_dir or ".") for p in [model_checkpoint_path, *paths])
    return CheckpointState(model_checkpoint_path, paths, times, last_preserved_timestamp or 0.0)


def _quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text.encode(), as_utf8=True)}"'


def write_whole(path: str, content: bytes) -> None:
    """Write a file so that it is never seen half written, whenever the process dies. Raises what the system says as the
    error of its kind: ResourceExhaustedError where the disk is full."""
    temporary = temporaries.temporary(path)
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            if checkpoint.survives_power_cut():
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(temporary)
        raise class_of(error)(f"{path} cannot be written: {error.strerror or error}") from error


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """The prefix of the newest checkpoint in the directory, for Saver.restore; None where there is none."""
    told = None
    while (state := get_checkpoint_state(checkpoint_dir, latest_filename)) and state.model_checkpoint_path != told:
        told = state.model_checkpoint_path
        if checkpoint_exists(told):
            return told
    return None  # what is told twice is gone; once, its saver may have deleted it when there was a newer one


def checkpoint_exists(checkpoint_prefix: str) -> bool:
    """Is there a complete checkpoint of that prefix? One of TensorFlow's V1 format is, too."""
    prefix = os.fsdecode(checkpoint_prefix)
    return os.path.isfile(prefix + INDEX_SUFFIX) or bool(checkpoint.v1_files(prefix))


def prefix_of(ckpt_dir_or_file: str) -> str:
    """A checkpoint's own prefix, or that of the newest in a directory."""
    ckpt_dir_or_file = os.fsdecode(ckpt_dir_or_file)
    if not os.path.isdir(ckpt_dir_or_file):
        return ckpt_dir_or_file
    found = latest_checkpoint(ckpt_dir_or_file)
    if found is None:
        raise ValueError(f"Couldn't find 'checkpoint' file or checkpoints in given directory {ckpt_dir_or_file}")
    return found


def list_variables(ckpt_dir_or_file: str) -> list[tuple[str, list[int]]]:
    """(name, shape) of all that a checkpoint holds, by name; of a directory, its newest checkpoint."""
    index = checkpoint.read(prefix_of(ckpt_dir_or_file))
    return [(name, list(entry.shape)) for name, entry in sorted(index.entries.items())]


def load_variable(ckpt_dir_or_file: str, name: str) -> Any:
    """The value of one tensor of a checkpoint, as a numpy array. Raises NotFoundError where it is not there."""
    from sparkflow.session.session import Session

    prefix = prefix_of(ckpt_dir_or_file)
    name = name.removesuffix(":0")
    index = checkpoint.read(prefix)
    if name not in index.entries:
        raise NotFoundError(index.missing(name, prefix))
    with Graph().as_default() as graph:
        (value,) = io.restore_v2(prefix, [name], [""], [as_dtype(index.entries[name].dtype)])
        with Session(graph=graph) as session:
            return session.run(value)
