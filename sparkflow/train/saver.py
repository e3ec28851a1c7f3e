"""Saver: keeps a model's variables in checkpoints, the newest few of them."""

from __future__ import annotations

import contextlib
import logging
import numbers
import os
import shutil
import threading
import time
from collections.abc import Container, Iterable, Sequence
from typing import Any

from tensorboard.compat.proto.saver_pb2 import SaverDef

from sparkflow.framework import shapes
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import variables
from sparkflow.train import checkpoint_state, meta_graph, saver_files, saver_graph, training_util
from sparkflow.train.saver_files import remove_checkpoint
from sparkflow.train.saver_graph import PARTS, Saveable, Saved, SaverNodes
from sparkflow_runtime.wire import checkpoint
from sparkflow_runtime.wire.checkpoint import INDEX_SUFFIX, Index
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError

_log = logging.getLogger("sparkflow")


class Saver:
    """Adds the nodes that save and restore variables, and runs them.

    var_list: variables, or a dict by the names that they have in checkpoints; all global variables by default.
    reshape: restore from tensors of another shape with as many elements. sharded: each task writes what it holds (all
    tasks then share a file system). max_to_keep: checkpoints kept, all when 0 or None; beside them one for every
    keep_checkpoint_every_n_hours. restore_sequentially: assign one after the other. Raises ValueError where there is
    nothing to save (unless allow_empty) or two variables have one name.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: SaverDef | None = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ):
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Set defer_build=False or var_list=None."
            )
        if write_version == SaverDef.V1:
            _log.warning("Saver: write_version V1 was asked for; checkpoints have one format here, that of V2's names")
        elif write_version != SaverDef.V2:
            raise ValueError(f"Saver: write_version must be SaverDef.V1 or V2, got {write_version}")
        if builder is not None:
            raise ValueError("Saver: builder is not supported; leave it None")
        saver_graph.check_kept(max_to_keep, keep_checkpoint_every_n_hours, sharded, saver_def)
        self._var_list, self._reshape, self._sharded = var_list, reshape, sharded
        self._max_to_keep, self._every_hours = max_to_keep or 0, keep_checkpoint_every_n_hours
        self._name, self._filename = name or "save", filename or "model"
        self._sequentially, self._allow_empty = restore_sequentially, allow_empty
        self._pad_step_number, self._relative = pad_step_number, save_relative_paths
        self._next_kept_time = time.time() + self._every_hours * 3600
        self._last_checkpoints: list[tuple[str, float]] = []
        self._saveables: list[Saved] = []
        self._nodes: SaverNodes | None = None
        self._is_empty = False
        self._has_recorded = False  # since it last restored: who begins anew, or goes on from elsewhere, may go back
        self._savers_of_objects: dict[tuple[str, ...], Saver] = {}
        self._saving = threading.RLock()
        if saver_def is not None:
            self._from_def(saver_def, name)
        elif not defer_build:
            self.build()

    def build(self) -> None:
        """Add the nodes; done by the constructor unless defer_build was set."""
        if self._nodes is not None or self._is_empty:
            return
        chosen = self._var_list
        if chosen is None:
            graph = get_default_graph()
            chosen = variables.global_variables() + graph.get_collection(GraphKeys.SAVEABLE_OBJECTS)
        if not chosen:
            if not self._allow_empty:
                raise ValueError("No variables to save")
            self._is_empty = True
            return
        self._saveables = saver_graph.saveables(chosen)
        self._nodes = saver_graph.build(
            self._saveables, self._filename, self._name, self._sharded, self._reshape, self._sequentially
        )

    def _from_def(self, saver_def: SaverDef, scope: str | None) -> None:
        names = saver_def.filename_tensor_name, saver_def.save_tensor_name, saver_def.restore_op_name
        self._nodes = SaverNodes(*(f"{scope}/{name}" if scope else name for name in names))
        self._max_to_keep, self._every_hours = saver_def.max_to_keep, saver_def.keep_checkpoint_every_n_hours
        self._sharded = saver_def.sharded

    def as_saver_def(self) -> SaverDef:
        """What another Saver on the same graph needs to know of this one."""
        nodes = self._built()
        return SaverDef(
            filename_tensor_name=nodes.filename,
            save_tensor_name=nodes.save,
            restore_op_name=nodes.restore,
            max_to_keep=self._max_to_keep,
            sharded=self._sharded,
            keep_checkpoint_every_n_hours=self._every_hours,
            version=SaverDef.V2,
        )

    def to_proto(self, export_scope: str | None = None) -> SaverDef | None:
        """The same, names without export_scope; None where it is not in that scope, or saves nothing."""
        if self._is_empty:
            return None
        made, prefix = self.as_saver_def(), export_scope.rstrip("/") + "/" if export_scope else ""
        if not made.filename_tensor_name.startswith(prefix):
            return None
        for key in ("filename_tensor_name", "save_tensor_name", "restore_op_name"):
            setattr(made, key, getattr(made, key).removeprefix(prefix))
        return made

    @staticmethod
    def from_proto(saver_def: SaverDef, import_scope: str | None = None) -> Saver:
        """The Saver whose nodes are in the graph already, under import_scope."""
        return Saver(saver_def=saver_def, name=import_scope)

    saver_def = property(as_saver_def)

    def _built(self) -> SaverNodes:
        if self._nodes is None:
            raise RuntimeError("Saver: call build() first, or leave defer_build False")
        return self._nodes

    # ------------------------------------------------------------------ saving

    def save(
        self,
        sess: Any,
        save_path: str,
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Write a checkpoint; returns its prefix: save_path, with '-<global_step>' when that is given.

        global_step: a number, or a tensor or variable to be read. Writes <prefix>.data-*, then <prefix>.index,
        <prefix>.meta (write_meta_graph), and the directory's `checkpoint` file (write_state): at any time there is a
        whole checkpoint. Older ones than max_to_keep are then removed. Returns None where the Saver is empty.
        """
        if latest_filename is not None and os.path.dirname(latest_filename):
            raise ValueError(f"'latest_filename' must not contain path components, got {latest_filename!r}")
        save_path = os.fsdecode(save_path)
        if os.path.basename(save_path) == (latest_filename or "checkpoint") and global_step is None:
            raise ValueError(f"'latest_filename' collides with 'save_path': {latest_filename!r} and {save_path!r}")
        if not callable(getattr(sess, "run", None)):
            raise TypeError(f"'sess' must be a Session; {sess!r}")
        with self._saving:  # from the step's number to the state file: the later save is then the one that it names
            prefix = self._prefix(sess, save_path, global_step)
            with saver_files.marked(f"{prefix}{PARTS}") if self._sharded else contextlib.nullcontext():
                saved = self._save(
                    sess, prefix, latest_filename, meta_graph_suffix, write_meta_graph, write_state, strip_default_attrs
                )
            if saved is not None and write_state:
                saver_files.remove_left_behind(save_path, latest_filename or "checkpoint")
            return saved

    def _save(
        self, sess: Any, prefix: str, latest: str | None, meta_graph_suffix: str, meta_graph: bool, state: bool,
        strip: bool,
    ) -> str | None:  # fmt: skip
        is_new = not self._is_empty and not os.path.isfile(prefix + INDEX_SUFFIX)
        if state and not self._is_empty and self._is_of_another(prefix, latest, is_new):
            return prefix
        if not self._is_empty:
            nodes = self._built()
            try:
                sess.run(nodes.save, {nodes.filename: prefix})
            except Exception:  # the parts of the tasks that could write theirs are of no use
                shutil.rmtree(f"{prefix}{PARTS}", ignore_errors=True)
                raise
        try:
            if meta_graph:
                self.export_meta_graph(f"{prefix}.{meta_graph_suffix}", graph=sess.graph, strip_default_attrs=strip)
            if state and not self._is_empty:
                others = self._record(prefix, latest)
        except Exception:
            if is_new:  # no state file names it: whoever goes on would not know of it
                self._last_checkpoints = [(p, t) for p, t in self._last_checkpoints if p != prefix]
                with contextlib.suppress(OSError):
                    remove_checkpoint(prefix, meta_graph_suffix=meta_graph_suffix)
            raise
        if state and not self._is_empty:
            self._remove_old(meta_graph_suffix, others)
        return None if self._is_empty else prefix

    def _prefix(self, sess: Any, save_path: str, global_step: Any) -> str:
        if global_step is None:
            return save_path
        counted = isinstance(global_step, numbers.Integral)  # by the caller, of Python's or of numpy's kind
        step = int(global_step) if counted else training_util.global_step(sess, global_step)
        return f"{save_path}-{step:08d}" if self._pad_step_number else f"{save_path}-{step}"

    def _is_of_another(self, prefix: str, latest_filename: str | None, is_new: bool) -> bool:
        """Whether a process that has overtaken this one saved that checkpoint: it then stays as it is."""
        other = saver_files.overtaken_by(prefix, self._named_by_another(prefix, latest_filename))
        if other is None or is_new or prefix in self.last_checkpoints:
            return False
        saver_files.tell_overtaken(prefix, other, "is left as the other saved it")
        return True

    def _record(self, prefix: str, latest_filename: str | None) -> list[str]:
        """Returns what the state file named until now, where another process wrote it."""
        kept = [(prefix, time.time())]
        if self._max_to_keep:  # a Saver that keeps all names the newest alone: those in the list are removed in turn,
            before = [(p, t) for p, t in self._last_checkpoints if p != prefix]  # if by the Saver of a later run
            self._last_checkpoints = before + kept
            kept = self._last_checkpoints[-self._max_to_keep :]
        others = self._named_by_another(prefix, latest_filename)
        if (other := saver_files.overtaken_by(prefix, others)) is not None:
            saver_files.tell_overtaken(prefix, other, "is not recorded")
            return others
        checkpoint_state.update_checkpoint_state(
            os.path.dirname(prefix),
            prefix,
            [p for p, _ in kept],
            latest_filename,
            [t for _, t in kept],
            save_relative_paths=self._relative,
        )
        self._has_recorded = True
        return others

    def _named_by_another(self, prefix: str, latest_filename: str | None) -> list[str]:
        return saver_files.named_by_another(prefix, latest_filename) if self._has_recorded else []

    def _remove_old(self, meta_graph_suffix: str, others: Container[str]) -> None:
        """The state file no longer names them. One every so many hours stays, and those that another process names."""
        most = self._max_to_keep
        if not most:
            return
        old, self._last_checkpoints = self._last_checkpoints[:-most], self._last_checkpoints[-most:]
        for prefix, written in old:
            if os.path.abspath(prefix) in others:
                continue
            if written > self._next_kept_time:
                self._next_kept_time += self._every_hours * 3600
            else:
                remove_checkpoint(prefix, meta_graph_suffix=meta_graph_suffix)

    @property
    def last_checkpoints(self) -> list[str]:
        """The prefixes of the checkpoints that will be removed in turn, the newest last."""
        return [prefix for prefix, _ in self._last_checkpoints]

    def set_last_checkpoints_with_time(self, last_checkpoints_with_time: Sequence[tuple[str, float]]) -> None:
        self._last_checkpoints = list(last_checkpoints_with_time)

    def set_last_checkpoints(self, last_checkpoints: Sequence[str]) -> None:
        self._last_checkpoints = [(prefix, float("inf")) for prefix in last_checkpoints]

    def recover_last_checkpoints(self, checkpoint_paths: Iterable[str]) -> None:
        """Take over checkpoints of an earlier run, to remove them in turn; those that are gone are left out."""
        found = [p for p in checkpoint_paths if os.path.isfile(p + INDEX_SUFFIX)]
        self._last_checkpoints = [(p, os.path.getmtime(p + INDEX_SUFFIX)) for p in found]

    def export_meta_graph(
        self, filename: str | None = None, collection_list: Any = None, as_text: bool = False,
        export_scope: str | None = None, clear_devices: bool = False, clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False, **options: Any,
    ) -> Any:  # fmt: skip
        """The graph, its collections and this Saver as a MetaGraphDef: train.export_meta_graph, which see."""
        return meta_graph.export_meta_graph(
            filename,
            saver_def=None if self._is_empty else self.as_saver_def(),
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
            **options,
        )

    # ------------------------------------------------------------------ restoring

    def restore(self, sess: Any, save_path: str) -> None:
        """Assign all variables from the checkpoint of that prefix; none is assigned where any cannot be.

        One that tf.train.Checkpoint or Keras wrote is read by the names that variables had there; nodes are added to
        the graph for that. Raises ValueError where there is no such checkpoint, NotFoundError where it lacks a
        variable, InvalidArgumentError where one has another shape or dtype, DataLossError where its files are damaged.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        save_path = os.fsdecode(save_path)
        if not checkpoint_state.checkpoint_exists(save_path):
            raise ValueError(
                f"The passed save_path is not a valid checkpoint: {save_path} (it has no {INDEX_SUFFIX} file)"
            )
        _log.info("Restoring parameters from %s", save_path)
        self._has_recorded = False
        index = checkpoint.read(save_path)
        if (of_objects := self._of_objects(index, save_path)) is not None:
            of_objects.restore(sess, save_path)
            return
        _check(self._saveables, index, save_path, self._reshape)
        nodes = self._built()
        sess.run(nodes.restore, {nodes.filename: save_path})

    def _of_objects(self, index: Index, save_path: str) -> Saver | None:
        """A Saver of the same variables by the keys that a checkpoint of objects has for their names; None where it is
        none."""
        if not self._saveables or all(s.name in index.entries for s in self._saveables):
            return None
        from sparkflow.train.checkpoint_reader import CheckpointReader
        from sparkflow.train.object_graph import GRAPH_KEY, keys_by_name

        if GRAPH_KEY not in index.entries:
            return None
        keys = keys_by_name(bytes(CheckpointReader(save_path).get_tensor(GRAPH_KEY)))
        held: dict[str, list[Any]] = {}
        for s in self._saveables:
            if not isinstance(s, Saveable) or s.name not in keys:
                some = ", ".join(sorted(keys)[:10]) + (f" and {len(keys) - 10} more" if len(keys) > 10 else "")
                raise NotFoundError(
                    f"Restoring from checkpoint failed: {save_path} is of objects, and no variable of theirs was "
                    f"called {s.name!r}: they were {some}"
                )
            held.setdefault(keys[s.name], []).append(s.variable)
        if tuple(held) not in self._savers_of_objects:
            _log.warning("%s is of objects: it is restored by the names that their variables had", save_path)
            with self._saveables[0].variable.graph.as_default():
                named = {key: parts if len(parts) > 1 else parts[0] for key, parts in held.items()}
                self._savers_of_objects[tuple(held)] = Saver(named, reshape=self._reshape, name=f"{self._name}_objects")
        return self._savers_of_objects[tuple(held)]


def _check(found: Sequence[Saved], index: Index, prefix: str, reshape: bool) -> None:
    """One error for all that does not fit."""
    missing = [s.name for s in found if s.name not in index.entries]
    if missing:
        others = f" and {len(set(missing)) - 1} more of the {len(found)} variables" if len(set(missing)) > 1 else ""
        raise NotFoundError(
            f"Restoring from checkpoint failed: {index.missing(missing[0], prefix)}"
            + (f". Not found are {missing[0]}{others}; is it the checkpoint of another model?" if others else "")
        )
    wrong = [problem for s in found if (problem := _mismatch(s, index, reshape))]
    if wrong:
        more = f"; and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise InvalidArgumentError(
            f"Restoring from checkpoint {prefix} failed: {'; '.join(wrong[:5])}{more}. "
            "Build the graph as it was when the checkpoint was made"
        )


def _mismatch(s: Saved, index: Index, reshape: bool) -> str | None:
    entry = index.entries[s.name]
    dims = s.full_shape
    if entry.dtype != s.dtype.name:
        return f"{s.name} is {s.dtype.name} in the graph and {entry.dtype} in the checkpoint"
    fits = shapes.compatible(dims, entry.shape)
    if reshape and not s.spec and shapes.fully_known(dims):
        fits = shapes.product(dims) == shapes.product(entry.shape)
    return (
        None
        if fits
        else f"{s.name} has shape {shapes.show(dims)} in the graph and {shapes.show(entry.shape)} in the checkpoint"
    )
