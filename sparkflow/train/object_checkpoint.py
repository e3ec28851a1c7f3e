"""Checkpoint: saves variables by the names under which objects hold them, not by those of the graph."""

from __future__ import annotations

import os
from typing import Any

from sparkflow.framework.graph import default_session, get_default_graph
from sparkflow.framework.tracked import Tracked
from sparkflow.ops import array, control_flow, io, state
from sparkflow.ops.variables import Variable, variables_initializer
from sparkflow.train import checkpoint_state
from sparkflow.train.object_graph import GRAPH_KEY, Matched, ObjectGraph, children, matched
from sparkflow_runtime.wire import checkpoint
from sparkflow_runtime.wire.dtypes import int64, string
from sparkflow_runtime.wire.errors import NotFoundError


class Checkpoint(Tracked):
    """Checkpoint(model=layer, optimizer=opt, step=variable): its attributes are what is saved.

    They are variables, optimizers (with their slots), layers, other Checkpoints, and lists, tuples and dicts of such;
    more can be set later. Files are those of a Saver, and TensorFlow's own ones are read. Raises ValueError on another
    kind of object, when it is saved or restored.
    """

    _holds_nothing_else = True

    def __init__(self, root: Any = None, **kwargs: Any):
        if root is not None:
            kwargs = {**dict(children(root)), **kwargs}
        for name, value in sorted(kwargs.items()):
            setattr(self, name, value)
        self._saves: dict[tuple[tuple[str, str], ...], tuple[Any, Any]] = {}
        self._restores: dict[tuple[tuple[str, str], ...], tuple[Any, Any]] = {}
        self._counting: Any = None

    @property
    def save_counter(self) -> Variable:
        """How often save was called; int64."""
        if "save_counter" not in vars(self):
            with get_default_graph().control_dependencies(None):
                self.__dict__["save_counter"] = Variable(0, dtype=int64, trainable=False, name="save_counter")
        return self.__dict__["save_counter"]

    @save_counter.setter
    def save_counter(self, value: Variable) -> None:
        self.__dict__["save_counter"] = value

    def write(self, file_prefix: str, session: Any = None, options: Any = None) -> str:
        """Write a checkpoint of that prefix, and nothing else; returns the prefix."""
        objects, prefix = ObjectGraph(self), os.fspath(file_prefix)
        names = tuple((key, objects.objects[number].name) for number, key in sorted(objects.keys.items()))
        if names not in self._saves:
            self._saves[names] = self._save_nodes(objects)
        given, save = self._saves[names]
        _session(session).run(save, {given: prefix})
        return prefix

    def _save_nodes(self, objects: ObjectGraph) -> tuple[Any, Any]:
        with get_default_graph().control_dependencies(None), get_default_graph().name_scope("checkpoint"):
            given = array.placeholder(string, [], "prefix")
            values = [(key, objects.objects[number]._ref()) for number, key in sorted(objects.keys.items())]
            tensors = [*(value for _, value in values), array.identity(objects.message())]
            keys = [*(key for key, _ in values), GRAPH_KEY]
            return given, io.save_v2(given, keys, [""] * len(keys), tensors)

    def save(self, file_prefix: str, session: Any = None, options: Any = None) -> str:
        """Write a checkpoint "<file_prefix>-<number of this save>", which latest_checkpoint then finds; returns its
        prefix."""
        path = self.write(f"{os.fspath(file_prefix)}-{self._counted(session)}", session)
        directory = os.path.dirname(path)
        checkpoint_state.update_checkpoint_state(directory, path, [path], save_relative_paths=True)
        return path

    def _counted(self, session: Any) -> int:
        """The number of the save that begins."""
        running, made = _session(session), "save_counter" not in vars(self)
        counter = self.save_counter
        if made:
            running.run(counter.initializer)
        if self._counting is None:
            self._counting = state.assign_add(counter, 1)
        return int(running.run(self._counting))

    def restore(self, save_path: str | None, options: Any = None) -> LoadStatus:
        """What is to be restored from a checkpoint: run_restore_ops or initialize_or_restore of the result do it.

        Objects that are set in between take part. Checkpoints of a Saver are restored by the names of the variables.
        None: nothing is restored. Raises NotFoundError where there is no such checkpoint.
        """
        if save_path is None:
            return LoadStatus(self, None)
        prefix = os.fspath(save_path)
        if not checkpoint_state.checkpoint_exists(prefix):
            raise NotFoundError(f"Checkpoint.restore: there is no checkpoint {prefix}")
        self.save_counter  # noqa: B018 - a part of what is restored
        return LoadStatus(self, prefix)

    read = restore


class LoadStatus:
    """What Checkpoint.restore gives: whether all fits, and the way to have it done."""

    def __init__(self, root: Checkpoint, prefix: str | None):
        self._root, self._prefix = root, prefix

    def _match(self) -> Matched:
        objects = ObjectGraph(self._root)
        if self._prefix is None:
            raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")
        index = checkpoint.read(self._prefix)
        if GRAPH_KEY in index.entries:
            from sparkflow.train.checkpoint_reader import CheckpointReader

            return matched(objects, bytes(CheckpointReader(self._prefix).get_tensor(GRAPH_KEY)))
        own = [objects.objects[number] for number in objects.keys]
        found = [(var, var.op.name) for var in own if var.op.name in index.entries]
        names = {name for _, name in found}
        missing = [var for var in own if var.op.name not in names]
        return Matched(found, missing, [name for name in index.entries if name not in names], len(found))

    def assert_consumed(self) -> LoadStatus:
        """Itself. Raises AssertionError unless each of the checkpoint's values is an object's, and the other way
        round."""
        match = self._match()
        if match.left:
            raise AssertionError(f"Unresolved object in checkpoint: {', '.join(match.left[:5])}")
        return self.assert_existing_objects_matched()

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Itself. Raises AssertionError unless each object's variable has a value in the checkpoint."""
        missing = [var.op.name for var in self._match().missing if var is not vars(self._root).get("save_counter")]
        if missing:
            raise AssertionError(f"Object not assigned a value from checkpoint: {', '.join(missing[:5])}")
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Itself. Raises AssertionError where nothing but the root object is in the checkpoint."""
        counter = vars(self._root).get("save_counter")
        if self._match().objects <= sum(var is counter for var, _ in self._match().found):
            raise AssertionError("Nothing except the root object matched a checkpointed value.")
        return self

    def expect_partial(self) -> LoadStatus:
        return self

    def run_restore_ops(self, session: Any = None) -> None:
        """Give the variables the values that the checkpoint has for them. Raises InvalidArgumentError on another shape
        or type."""
        self._restore(self._match().found, session)

    def initialize_or_restore(self, session: Any = None) -> None:
        """The same, and initialize the other variables; all of them where there is no checkpoint."""
        if self._prefix is None:
            objects = ObjectGraph(self._root)
            _session(session).run(variables_initializer([objects.objects[number] for number in objects.keys]))
            return
        match = self._match()
        _session(session).run(variables_initializer(match.missing))
        self._restore(match.found, session)

    def _restore(self, found: list[tuple[Variable, str]], session: Any) -> None:
        if not found:
            return
        nodes, names = self._root._restores, tuple((key, var.name) for var, key in found)
        if names not in nodes:
            with get_default_graph().control_dependencies(None), get_default_graph().name_scope("checkpoint"):
                given = array.placeholder(string, [], "prefix")
                keys = [key for _, key in found]
                values = io.restore_v2(given, keys, [""] * len(keys), [var.dtype for var, _ in found])
                assigned = [state.assign(var, value).op for (var, _), value in zip(found, values)]
                nodes[names] = given, control_flow.group(*assigned)
        given, restored = nodes[names]
        _session(session).run(restored, {given: self._prefix})


def _session(session: Any) -> Any:
    found = session or default_session()
    if found is None:
        raise ValueError(
            "Checkpoint: no default session is registered. Use `with sess.as_default()` or pass `session=`"
        )
    return found
