"""Scaffold: the ops a monitored session needs, the user's own or the usual ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import control_flow, variables
from sparkflow.summary import merge_all
from sparkflow.train import saver as saving
from sparkflow.train.readiness import global_variables_missing, variables_missing
from sparkflow_runtime.wire.collector import paused


class Scaffold:
    """init_op: initializes the model; init_feed_dict: its feeds; init_fn(scaffold, session): runs after it.

    ready_op: names what is missing, run after init_op. ready_for_local_init_op, local_init_op: the same for what each
    session initializes for itself (local variables and tables). summary_op: all summaries. saver: saves and restores.
    What is None is taken from the graph's collection of that name, else made by `finalize()`.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any, Any], None] | None = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
        local_init_feed_dict: Any = None,
    ):
        base = copy_from_scaffold
        if base is not None and not isinstance(base, Scaffold):
            raise TypeError(f"copy_from_scaffold is not a Scaffold instance, got {base!r}")
        if saver is not None and not hasattr(saver, "restore"):
            raise TypeError(f"Scaffold: saver must be a Saver, got {saver!r}")
        self._init_fn: Callable[[Any, Any], None] | None = _either(init_fn, base, "_init_fn")
        self._init_op = _either(init_op, base, "_init_op")
        self._init_feed_dict = _either(init_feed_dict, base, "_init_feed_dict")
        self._ready_op = _either(ready_op, base, "_ready_op")
        self._ready_for_local_init_op = _either(ready_for_local_init_op, base, "_ready_for_local_init_op")
        self._local_init_op = _either(local_init_op, base, "_local_init_op")
        self._local_init_feed_dict = _either(local_init_feed_dict, base, "_local_init_feed_dict")
        self._summary_op = _either(summary_op, base, "_summary_op")
        self._saver = _either(saver, base, "_saver")
        self._finalized = False

    init_op = property(lambda self: self._init_op)
    init_feed_dict = property(lambda self: self._init_feed_dict)
    ready_op = property(lambda self: self._ready_op)
    ready_for_local_init_op = property(lambda self: self._ready_for_local_init_op)
    local_init_op = property(lambda self: self._local_init_op)
    local_init_feed_dict = property(lambda self: self._local_init_feed_dict)
    summary_op = property(lambda self: self._summary_op)
    saver = property(lambda self: self._saver)

    @property
    def init_fn(self) -> Callable[[Any], None] | None:
        """A function of the session alone."""
        init_fn = self._init_fn
        return None if init_fn is None else lambda session: init_fn(self, session)

    @paused()
    def finalize(self) -> Scaffold:
        """Make what is missing, and let the graph change no more."""
        if not self._finalized:
            if self._init_op is None:
                self._init_op = _found_or_made(GraphKeys.INIT_OP, _init_op)
            if self._ready_op is None:
                self._ready_op = _found_or_made(GraphKeys.READY_OP, variables_missing)
            if self._ready_for_local_init_op is None:
                self._ready_for_local_init_op = _found_or_made(
                    GraphKeys.READY_FOR_LOCAL_INIT_OP, global_variables_missing
                )
            if self._local_init_op is None:
                self._local_init_op = _found_or_made(GraphKeys.LOCAL_INIT_OP, default_local_init_op)
            if self._summary_op is None:
                self._summary_op = _found_or_made(GraphKeys.SUMMARY_OP, merge_all)
            if self._saver is None:
                self._saver = _found_or_made(GraphKeys.SAVERS, _saver)
            self._finalized = True
        get_default_graph().finalize()
        return self

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The one element of a collection, or a new one, which joins it. RuntimeError where there are several."""
        return _found_or_made(collection_key, default_constructor, arg_name)

    @staticmethod
    def default_local_init_op() -> Any:
        return default_local_init_op()


def _either(own: Any, base: Scaffold | None, name: str) -> Any:
    return own if own is not None or base is None else getattr(base, name)


def _found_or_made(key: str, make: Callable[[], Any], what: str | None = None) -> Any:
    found = get_default_graph().get_collection(key)
    if len(found) > 1:
        raise RuntimeError(
            f"More than one item in the collection {key!r}; tell Scaffold which to use by {what or key}=..."
        )
    if found:
        return found[0]
    made = make()
    if made is not None:
        get_default_graph().add_to_collection(key, made)
    return made


def _init_op() -> Any:
    return control_flow.group(variables.global_variables_initializer(), name="init_all")


def default_local_init_op() -> Any:
    """Initializes what belongs to one session: local variables and look-up tables."""
    tables = get_default_graph().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return control_flow.group(variables.local_variables_initializer(), *tables, name="local_init_all")


def _saver() -> Any:
    if not variables.global_variables():
        return None
    return saving.Saver(sharded=True)
