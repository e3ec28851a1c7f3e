"""Session: runs parts of a graph. Feeds and fetches cross to the runtime here, and its errors come back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from threading import Lock
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import as_array
from sparkflow.framework.graph import Graph, Tensor, default_session, get_default_graph, session_as_default
from sparkflow.session.fetches import FetchPlan
from sparkflow_runtime.session import RuntimeSession
from sparkflow_runtime.wire import dtypes
from sparkflow_runtime.wire.errors import OpError
from sparkflow_runtime.wire.protos import ConfigProto


class Session:
    """Runs `graph` (the default one) in this process, or in the cluster of the Server whose `target` is given.

    Variables live in the session when it has no target, and in the tasks of the cluster otherwise.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        self._graph = graph or get_default_graph()
        self.sess_str = target or ""
        self._config = config
        self._runtime = RuntimeSession(self.sess_str, config)
        self._sent = 0
        self._lock = Lock()
        self._closed = False
        self._context: ExitStack | None = None

    @property
    def graph(self) -> Graph:
        return self._graph

    @property
    def graph_def(self) -> Any:
        return self._graph.as_graph_def()

    def list_devices(self) -> list[str]:
        return self._runtime.devices()

    # ------------------------------------------------------------------ running

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """The value of `fetches`, in the structure given: numpy arrays for tensors, None for operations.

        feed_dict: tensor -> value, for placeholders and any other tensor that may be fed.
        Raises RuntimeError on a closed session, TypeError/ValueError on a bad feed or fetch before anything runs, and
        the runtime's error (tf.errors.OpError) with the node, device and the line that made the node.
        """
        self._check_open()
        self._extend()
        plan = FetchPlan(self._graph, fetches)
        feeds = self._feeds(feed_dict)
        try:
            values = self._runtime.run(feeds, plan.tensors, plan.targets, options, run_metadata)
        except OpError as error:
            raise self._explained(error) from error.__cause__
        return plan.rebuild([_python_value(v) for v in values])

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False) -> Any:
        """A function of the values of `feed_list`, in order, that returns what `run(fetches)` would."""
        self._check_open()
        self._extend()
        plan = FetchPlan(self._graph, fetches)
        tensors = [self._fed_tensor(f) for f in feed_list or ()]
        prepared = self._runtime.prepare([t.name for t in tensors], plan.tensors, plan.targets)

        def call(*args: Any, **options: Any) -> Any:
            self._check_open()
            if len(args) != len(tensors):
                raise ValueError(f"This callable takes {len(tensors)} feeds, got {len(args)}")
            try:
                values = prepared([_checked_feed(t, a) for t, a in zip(tensors, args, strict=True)])
            except OpError as error:
                raise self._explained(error) from error.__cause__
            return plan.rebuild([_python_value(v) for v in values])

        return call

    def _feeds(self, feed_dict: Any) -> dict[str, np.ndarray]:
        feeds = {}
        for key, value in (feed_dict or {}).items():
            keys, values = (key, value) if isinstance(key, (list, tuple)) else ((key,), (value,))
            for k, v in zip(keys, values, strict=True):
                tensor = self._fed_tensor(k)
                feeds[tensor.name] = _checked_feed(tensor, v)
        return feeds

    def _fed_tensor(self, key: Any) -> Tensor:
        try:
            return self._graph.as_graph_element(key, allow_operation=False)
        except (TypeError, ValueError, KeyError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from None

    def _extend(self) -> None:
        if self._graph.version > self._sent:
            with self._lock:
                version = self._graph.version
                if version > self._sent:
                    self._runtime.extend(self._graph.as_graph_def(from_version=self._sent))
                    self._sent = version

    def _explained(self, error: OpError) -> OpError:
        """The error with the operation it arose at and the user's line that made it."""
        node = error.node_def
        op = self._graph._ops.get(node.name) if node is not None else None
        if op is not None and error.op is None:
            error.op = op
            if op.traceback_frame is not None:
                error.message += "\n\t defined at {}:{}".format(*op.traceback_frame)
        return error

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

    # ------------------------------------------------------------------ life

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._runtime.close()

    def as_default(self) -> Any:
        return session_as_default(self)

    def __enter__(self) -> Session:
        self._context = ExitStack()
        self._context.enter_context(self._graph.as_default())
        self._context.enter_context(session_as_default(self))
        return self

    def __exit__(self, *error: Any) -> None:
        if self._context is not None:
            self._context.close()
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self.close()


class InteractiveSession(Session):
    """A session that is the default from its creation until `close()`."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None):
        super().__init__(target, graph, config)
        self._stack = ExitStack()
        if graph is not None:
            self._stack.enter_context(graph.as_default())
        self._stack.enter_context(session_as_default(self))

    def close(self) -> None:
        super().close()
        self._stack.close()


def get_default_session() -> Session | None:
    return default_session()


def _checked_feed(tensor: Tensor, value: Any) -> np.ndarray:
    if isinstance(value, Tensor):
        raise TypeError(
            f"The value of a feed cannot be a Tensor object ({tensor.name}): run it first and feed the result"
        )
    want = tensor.dtype.base_dtype
    array = value if type(value) is np.ndarray and value.dtype == want.np else _converted(tensor, value, want)
    if not shapes.compatible(array.shape, tensor._shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape} for Tensor {tensor.name!r}, which has shape "
            f"{shapes.show(tensor._shape)}"
        )
    return array


def _converted(tensor: Tensor, value: Any, want: dtypes.DType) -> np.ndarray:
    """The fed value in the tensor's dtype: numbers are cast as numpy casts them, floats never become integers
    silently."""
    try:
        array = as_array(value, dtypes.string) if want is dtypes.string else np.asarray(value)
        if array.dtype.kind == "f" and want.is_integer and array.size and not np.array_equal(array, np.trunc(array)):
            raise TypeError(f"values such as {array.ravel()[0]!r} would be cut to {want.name}")
        if array.dtype.kind in "OSU" and want is not dtypes.string:
            raise ValueError(f"it has type {array.dtype}")
        fed = array.astype(want.np, copy=False)
        if array.dtype.kind in "iu" and want.is_integer and not np.array_equal(fed, array):
            raise TypeError(f"values such as {array.ravel()[0]!r} do not fit {want.name} [{want.min}, {want.max}]")
        return fed
    except (TypeError, ValueError) as error:
        raise type(error)(f"Cannot feed {tensor.name!r} (dtype {want.name}): {error}") from None


def _python_value(value: Any) -> Any:
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
