"""Session: runs parts of a graph. Feeds and fetches cross to the runtime here, and its errors come back."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow.framework.graph import Graph, Tensor, default_session, get_default_graph, session_as_default
from sparkflow.framework.user_frame import place, retold
from sparkflow.session.defaults import given_or_default
from sparkflow.session.feeds import checked, fed_tensors, feeds_in_order, feeds_of
from sparkflow.session.fetches import FetchPlan, FetchPlans
from sparkflow.session.runtime import runtime
from sparkflow_runtime.wire.collector import paused
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError
from sparkflow_runtime.wire.protos import ConfigProto, RunMetadata, RunOptions

if TYPE_CHECKING:
    from sparkflow_runtime.session import AnyPartialRun, AnySession, DeviceAttributes


class Session:
    """Runs `graph` (the default one) in this process, or in the cluster of the Server whose `target` is given.

    target: "" or 'sparkflow://host:port' ('grpc://' means the same): any task of a cluster, in this process or not. It
    is the master of the session. A Server that is not there yet is waited for, for 20 s.
    Variables live in the session when it has no target, and in the tasks of the cluster otherwise.
    config: intra_op_parallelism_threads limits BLAS's threads in the whole process, for the first session that sets it
    and unless the environment does (sparkflow_runtime.threads); inter_op_parallelism_threads likewise those that run
    calls which do not need each other side by side, 1 none of them.
    Raises TypeError where target, graph or config are of another type, InvalidArgumentError on another form of target,
    UnavailableError where no Server answers there, UnauthenticatedError where it has another secret.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        self._closed = True  # until it is open, should anything here fail
        _check_type("target", target, str, "a string")
        _check_type("graph", graph, Graph, "a tf.Graph")
        _check_type("config", config, ConfigProto, "a tf.ConfigProto")
        self._graph = graph or get_default_graph()
        self.sess_str = target or ""
        self._config = config = given_or_default(config)
        self._runtime: AnySession = runtime("session").open_session(self.sess_str, config)
        self._plans = FetchPlans(self._graph, weakref.ref(self))
        self._sent, self._sending = 0, False  # sending: an interrupt may have come when some nodes were there
        self._lock = Lock()
        self._partial: dict[str, AnyPartialRun] = {}
        self._context: ExitStack | None = None
        self._closed = False

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def graph_def(self) -> Any:
        return self._graph.as_graph_def()

    def list_devices(self) -> list[DeviceAttributes]:
        """The devices that a graph may name, this session's own task first."""
        self._check_open()
        return self._runtime.devices()

    @staticmethod
    def reset(target: str, containers: Sequence[str] | None = None, config: ConfigProto | None = None) -> None:
        """Drop the variables and queues of these containers (of all) in the cluster of `target`, and end every session
        there: their next run raises AbortedError. Sessions without a target own what they use and are not touched.

        Raises TypeError on containers that are no list of names, UnavailableError where nobody answers in 20 s, or in
        the config's operation_timeout_in_ms."""
        named = [] if containers is None else containers
        if not isinstance(named, (list, tuple)) or not all(isinstance(name, str) for name in named):
            raise TypeError(f"containers must be a list of their names, got {containers!r}")
        runtime("session").reset(target, list(named), config)

    # ------------------------------------------------------------------ running

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The value of `fetches`, in the structure given: numpy arrays for tensors, None for operations.

        feed_dict: tensor -> value, for placeholders and any other tensor that may be fed.
        Raises RuntimeError on a closed session, TypeError/ValueError on a bad feed, fetch or option before
        anything runs, and the runtime's error (tf.errors.OpError) with its node, device and the line that made it.
        """
        self._begin()
        if options is not None or run_metadata is not None:
            _check_type("options", options, RunOptions, "a tf.RunOptions")
            _check_type("run_metadata", run_metadata, RunMetadata, "a tf.RunMetadata")
        plan = self._plans.of(fetches)
        feeds = feeds_of(self._graph, feed_dict) if feed_dict else {}
        try:
            values = self._runtime.run(feeds, plan.tensors, plan.targets, options, run_metadata)
        except OpError as error:
            raise self._explained(error) from error.__cause__
        return plan.rebuild(_python_values(values))

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """A function of the values of `feed_list` (keys as those of feed_dict), in order: what `run(fetches)` returns.

        With accept_options it also takes `options` and `run_metadata` by name, as `run` does.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError(f"Argument `feed_list` must be a list or tuple, got {type(feed_list).__name__}")
        self._begin()
        plan = FetchPlan(self._graph, fetches, weakref.ref(self))
        keys = list(feed_list or ())
        tensors = [tensor for key in keys for tensor in fed_tensors(self._graph, key)]
        plain = all(isinstance(key, (str, Tensor)) for key in keys)
        prepared = self._runtime.prepare([t.name for t in tensors], plan.tensors, plan.targets)

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            self._check_open()
            if len(args) != len(keys):
                raise ValueError(f"This callable takes {len(keys)} feeds, got {len(args)}")
            if not accept_options and (options is not None or run_metadata is not None):
                raise TypeError("options and run_metadata: make this callable with accept_options=True")
            try:
                if plain:
                    fed = [checked(t, a) for t, a in zip(tensors, args)]
                else:  # a sparse placeholder is several tensors
                    found = feeds_in_order(self._graph, keys, args)
                    fed = [found[t.name] for t in tensors]
                values = prepared(fed, options, run_metadata)
            except OpError as error:
                raise self._explained(error) from error.__cause__
            return plan.rebuild(_python_values(values))

        return call

    def _cancellable(self, op: Any) -> tuple[Callable[[], None], Callable[[], None]]:
        """(run, cancel) of an operation: cancel() has the run of another thread raise CancelledError."""
        self._begin()
        run, cancel = self._runtime.prepare_to_cancel(self._graph.as_graph_element(op).name)

        def call() -> None:
            self._check_open()
            try:
                run()
            except OpError as error:
                raise self._explained(error) from error.__cause__

        return call, cancel

    def _compile_ahead(self, fetches: Iterable[Any]) -> None:
        """What will be run soon, each without feeds, is compiled while the program waits for something else."""
        self._begin()
        plans = [self._plans.of(f) for f in fetches]
        self._runtime.compile_ahead((plan.tensors, plan.targets) for plan in plans)

    def partial_run_setup(self, fetches: Any, feeds: Sequence[Any] | None = None) -> str:
        """Begin a step whose feeds come, and whose fetches go, by several calls of `partial_run`; the handle for them.

        Experimental in TensorFlow, too. What is computed for one call is there for the next, and is computed once.
        """
        self._begin()
        plan = FetchPlan(self._graph, fetches, weakref.ref(self))
        fed = [tensor.name for feed in feeds or () for tensor in fed_tensors(self._graph, feed)]
        run = self._runtime.begin_partial(fed, plan.tensors, plan.targets)
        self._partial[run.handle] = run
        return run.handle

    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Go on with a step: give it more of its feeds and take more of its fetches, each of them once.

        Raises InvalidArgumentError on an unknown or finished handle, on what was not named to `partial_run_setup` or
        came before, and on a fetch that needs feeds still to come.
        """
        self._check_open()
        plan = FetchPlan(self._graph, fetches, weakref.ref(self))
        feeds = feeds_of(self._graph, feed_dict) if feed_dict else {}
        run = self._partial.get(handle)
        if run is None:
            raise InvalidArgumentError(
                f"No partial run {handle!r}: it is finished, or partial_run_setup never began it"
            )
        try:
            values = run.advance(feeds, plan.tensors, plan.targets)
        except OpError as error:
            raise self._explained(error) from error.__cause__
        finally:
            if run.finished:
                self._partial.pop(handle, None)
        return plan.rebuild(_python_values(values))

    def _begin(self) -> None:
        """What comes before every run: the runtime learns the nodes that are new."""
        self._check_open()
        version = self._graph.version
        if version > self._sent:
            self._extend()
        elif not version:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")

    def _extend(self) -> None:
        with self._graph._unfinished, self._lock, paused():  # what another thread builds is sent once it is whole
            version = self._graph.version
            if version > self._sent:
                made = self._graph.operations_since(self._sent, version)
                ops = [(op.name, op.type, op.device) for op in made]
                again, self._sending = self._sending, True
                self._runtime.extend_unwritten(ops, self._graph.write_node, again)
                self._sent, self._sending = version, False

    def _explained(self, error: OpError) -> OpError:
        """The error with the operation it arose at and the user's line that made it; without the frames inside the
        runtime, which say nothing of the user's program. What a kernel met with is the cause, with its own frames."""
        node = error.node_def
        op = self._graph._ops.get(node.name) if node is not None else None
        if op is not None and error.op is None:
            error.op = op
            if op.traceback_frame is not None:
                error.message = f"{retold(error.message)}\n\t defined at {place(*op.traceback_frame)}"
        return error.with_traceback(None)

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        """End the steps that run, with CancelledError; closing again does nothing."""
        if not self._closed:
            self._closed = True
            self._runtime.close()
            self._partial.clear()

    def as_default(self) -> Any:
        return session_as_default(self)

    def __enter__(self) -> Session:
        if self._context is not None:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` to enter a session again"
            )
        self._context = ExitStack()
        self._context.enter_context(self._graph.as_default())
        self._context.enter_context(session_as_default(self))
        return self

    def __exit__(self, *error: Any) -> None:
        context, self._context = self._context, None
        if context is not None:
            context.close()
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        if self.sess_str:
            self._closed = True
            runtime("session").close_later(self._runtime)
        else:
            self.close()


_interactive: weakref.WeakSet[InteractiveSession] = weakref.WeakSet()


class InteractiveSession(Session):
    """A session that is the default from its creation until `close()`."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        super().__init__(target, graph, config)
        if _interactive:
            warnings.warn(
                "An interactive session is already active: its variables and buffers stay in memory until its "
                "`close()` is called",
                stacklevel=2,
            )
        _interactive.add(self)
        self._stack = ExitStack()
        if graph is not None:
            self._stack.enter_context(graph.as_default())
        self._stack.enter_context(session_as_default(self))

    def close(self) -> None:
        if not self._closed:
            super().close()
            _interactive.discard(self)
            self._stack.close()


def get_default_session() -> Session | None:
    return default_session()


def _check_type(name: str, value: Any, kind: type, words: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"Argument `{name}` must be {words}, but got {type(value).__name__!r}")


def _python_values(values: Sequence[Any]) -> list[Any]:
    """Arrays of no dimension as numpy's numbers."""
    array = np.ndarray
    return [value if type(value) is not array or value.ndim else value[()] for value in values]
