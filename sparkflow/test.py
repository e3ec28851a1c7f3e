"""tf.test: a TestCase with sessions and comparisons of arrays, and numeric gradients."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any
from unittest import mock  # noqa: F401 - a name of tf.test

import numpy as np
from absl.testing.absltest import TestCase as _TestCase

from sparkflow.benchmarks import (
    Benchmark,  # noqa: F401 - a name of tf.test
    benchmarks_asked_for,
    run_benchmarks,
)
from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import (
    Graph,
    default_session,
    get_default_graph,
    leave_default_graphs,
    reset_default_graph,
)
from sparkflow.framework.random_seed import set_random_seed
from sparkflow.grads.gradients import gradients
from sparkflow.session.session import Session
from sparkflow_runtime.wire.devices import canonical
from sparkflow_runtime.wire.errors import OpError

_SEED = 87654321
_HALF = ("float16", "bfloat16")


class TestCase(_TestCase):
    """absl's, with a new default graph and seed for each test."""

    _cached: Session | None = None  # also of a class whose setUp is all its own

    def setUp(self) -> None:
        super().setUp()
        self._close_cached()
        np.random.seed(_SEED)
        leave_default_graphs()  # also of a decorator that begins the test anew in a graph of its own
        reset_default_graph()
        set_random_seed(_SEED)

    def tearDown(self) -> None:
        self._close_cached()
        super().tearDown()

    def _close_cached(self) -> None:
        if self._cached is not None:
            self._cached.close()
            self._cached = None

    def get_temp_dir(self) -> str:
        return get_temp_dir()

    # sessions

    @contextmanager
    def session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Session]:
        """A session of `graph` (the default one), both current inside."""
        chosen = graph or get_default_graph()
        with chosen.as_default(), Session(graph=chosen, config=config) as session:
            yield session

    def test_session(self, graph: Graph | None = None, *args: Any, **kwargs: Any) -> AbstractContextManager[Session]:
        """cached_session, or session where a graph is given, by their older name, which unittest takes for a test."""
        if self.id().endswith(".test_session"):
            self.skipTest("Not a test.")
        return (self.cached_session if graph is None else self.session)(graph, *args, **kwargs)

    @contextmanager
    def cached_session(
        self, graph: Graph | None = None, config: Any = None, use_gpu: bool = False, force_gpu: bool = False
    ) -> Iterator[Session]:
        """The same session at each call of one test."""
        if self._cached is None:
            self._cached = Session(graph=graph or get_default_graph(), config=config)
        with self._cached.graph.as_default(), self._cached.as_default():
            yield self._cached

    def evaluate(self, tensors: Any) -> Any:
        """Their values, in the default session or that of cached_session."""
        session = default_session() or self._cached
        if session is None:
            with self.cached_session() as session:
                return session.run(tensors)
        return session.run(tensors)

    # comparisons

    assertItemsEqual = _TestCase.assertCountEqual

    def assertDeviceEqual(self, device1: Any, device2: Any, msg: str | None = None) -> None:
        """Devices by name, in any spelling."""
        self.assertEqual(canonical(device1), canonical(device2), msg)

    def _array(self, value: Any) -> np.ndarray:
        return np.asarray(self.evaluate(value) if hasattr(value, "graph") else value)

    def assertAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        np.testing.assert_array_equal(self._array(a), self._array(b), err_msg=msg or "")

    def assertNotAllEqual(self, a: Any, b: Any, msg: str | None = None) -> None:
        if np.array_equal(self._array(a), self._array(b)):
            self.fail(msg or "The two values are equal at all elements.")

    def assertAllClose(self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, msg: str | None = None) -> None:
        """Of arrays, or of equal structures of them; halves are compared at 1e-2 at best."""
        if isinstance(a, Mapping) or isinstance(b, Mapping):
            self.assertEqual(sorted(a), sorted(b), msg)
            for key in a:
                self.assertAllClose(a[key], b[key], rtol, atol, msg or f"of {key!r}")
            return
        try:
            x, y = self._array(a), self._array(b)
        except ValueError:  # a list of arrays of several shapes
            x = y = np.asarray(None)
        if x.dtype == object and isinstance(a, (list, tuple)):
            self.assertEqual(len(a), len(b), msg)
            for one, other in zip(a, b):
                self.assertAllClose(one, other, rtol, atol, msg)
            return
        self.assertEqual(x.shape, y.shape, f"Shape mismatch: expected {x.shape}, got {y.shape}. {msg or ''}")
        if x.dtype.name in _HALF or y.dtype.name in _HALF:
            rtol, atol, x, y = max(rtol, 1e-2), max(atol, 1e-2), x.astype(np.float64), y.astype(np.float64)
        np.testing.assert_allclose(x, y, rtol, atol, err_msg=msg or "")

    def assertAllCloseAccordingToType(
        self, a: Any, b: Any, rtol: float = 1e-6, atol: float = 1e-6, float_rtol: float = 1e-6,
        float_atol: float = 1e-6, half_rtol: float = 1e-3, half_atol: float = 1e-3, bfloat16_rtol: float = 1e-2,
        bfloat16_atol: float = 1e-2, msg: str | None = None,
    ) -> None:  # fmt: skip
        x, y = self._array(a), self._array(b)
        names = {x.dtype.name, y.dtype.name}
        for name, r, t in (("float32", float_rtol, float_atol), ("complex64", float_rtol, float_atol),
                           ("float16", half_rtol, half_atol), ("bfloat16", bfloat16_rtol, bfloat16_atol)):  # fmt: skip
            rtol, atol = (max(rtol, r), max(atol, t)) if name in names else (rtol, atol)
        self.assertAllClose(x, y, rtol, atol, msg)

    def assertNotAllClose(self, a: Any, b: Any, **settings: Any) -> None:
        try:
            self.assertAllClose(a, b, **settings)
        except AssertionError:
            return
        self.fail("The two values are close at all elements.")

    def assertNDArrayNear(self, ndarray1: Any, ndarray2: Any, err: float, msg: str | None = None) -> None:
        self.assertTrue(np.linalg.norm(self._array(ndarray1) - self._array(ndarray2)) < err, msg)

    def assertArrayNear(self, farray1: Any, farray2: Any, err: float, msg: str | None = None) -> None:
        self.assertEqual(len(farray1), len(farray2), msg)
        for x, y in zip(farray1, farray2):
            self.assertNear(x, y, err, msg)

    def assertNear(self, f1: float, f2: float, err: float, msg: str | None = None) -> None:
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err, f"{f1!r} != {f2!r} +/- {err!r} {msg or ''}")

    def _all(self, holds: Any, target: Any, what: str) -> None:
        self.assertTrue(bool(np.all(holds)), f"Not all elements of {target!r} are {what}")

    def assertAllGreater(self, a: Any, comparison_target: Any) -> None:
        self._all(self._array(a) > comparison_target, a, f"> {comparison_target}")

    def assertAllLess(self, a: Any, comparison_target: Any) -> None:
        self._all(self._array(a) < comparison_target, a, f"< {comparison_target}")

    def assertAllGreaterEqual(self, a: Any, comparison_target: Any) -> None:
        self._all(self._array(a) >= comparison_target, a, f">= {comparison_target}")

    def assertAllLessEqual(self, a: Any, comparison_target: Any) -> None:
        self._all(self._array(a) <= comparison_target, a, f"<= {comparison_target}")

    def assertAllInRange(self, target: Any, lower_bound: Any, upper_bound: Any, open_lower_bound: bool = False,
                         open_upper_bound: bool = False) -> None:  # fmt: skip
        x = self._array(target)
        above = x > lower_bound if open_lower_bound else x >= lower_bound
        below = x < upper_bound if open_upper_bound else x <= upper_bound
        self._all(above & below, target, f"between {lower_bound} and {upper_bound}")

    def assertAllInSet(self, target: Any, expected_set: Any) -> None:
        self._all(np.isin(self._array(target), list(expected_set)), target, f"in {expected_set}")

    def assertShapeEqual(self, np_array: Any, tf_tensor: Any, msg: str | None = None) -> None:
        self.assertAllEqual(np_array.shape, tf_tensor.get_shape().as_list(), msg)

    def assertDTypeEqual(self, target: Any, expected_dtype: Any) -> None:
        self.assertEqual(self._array(target).dtype, np.dtype(expected_dtype))

    def assertProtoEquals(self, expected_message_maybe_ascii: Any, message: Any, msg: str | None = None) -> None:
        """expected: a message, or its text."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            from google.protobuf import text_format

            expected = text_format.Parse(expected, type(message)())
        self.assertEqual(expected, message, msg)

    def assertStartsWith(self, actual: str, expected_start: str, msg: str | None = None) -> None:
        self.assertTrue(
            actual.startswith(expected_start), f"{actual!r} does not start with {expected_start!r}. {msg or ''}"
        )

    def assertRaisesOpError(self, expected_err_re_or_predicate: Any) -> Any:
        return self.assertRaisesWithPredicateMatch(OpError, expected_err_re_or_predicate)

    @contextmanager  # absl's takes another predicate and runs a function
    def assertRaisesWithPredicateMatch(  # type: ignore[override]
        self, exception_type: Any, expected_err_re_or_predicate: Any
    ) -> Iterator[None]:
        """The error's text matches the regular expression, or the function says true of the error."""
        check = expected_err_re_or_predicate
        try:
            yield
        except exception_type as error:
            fits = check(error) if callable(check) else re.search(check, str(error))
            if not fits:
                raise AssertionError(
                    f"Exception of type {type(error).__name__} does not fit {check!r}: {error}"
                ) from error
            return
        self.fail(f"{exception_type.__name__} not raised")


def main(argv: Any = None) -> None:
    """Run the tests of the program, its flags (tf.flags) read first; does not come back.

    Where it is told --benchmarks=<pattern>, it runs those of its Benchmarks' methods whose names the pattern fits.
    """
    from absl.testing import absltest

    pattern = benchmarks_asked_for(argv)
    if pattern is not None:
        run_benchmarks(pattern)
        raise SystemExit(0)
    absltest.main(argv=argv)


def create_local_cluster(num_workers: int, num_ps: int, protocol: str = "grpc") -> tuple[list[Any], list[Any]]:
    """(servers of the workers, servers of the parameter servers), all in this process."""
    from sparkflow.session.server import Server, secret_of_environment
    from sparkflow_runtime.wire.cluster import ClusterSpec

    tasks = [("worker", i) for i in range(num_workers)] + [("ps", i) for i in range(num_ps)]
    servers = [Server.bound(job, index, "localhost", secret_of_environment()) for job, index in tasks]
    addresses = [server.address for server in servers]
    cluster = ClusterSpec({"worker": addresses[:num_workers], "ps": addresses[num_workers:]})
    for server in servers:
        server.join_cluster(cluster)
    return servers[:num_workers], servers[num_workers:]


@cache
def get_temp_dir() -> str:
    """A folder of this process that tests may fill."""
    return os.environ.get("TEST_TMPDIR") or tempfile.mkdtemp(prefix="sparkflow_test")


def test_src_dir_path(relative_path: str) -> str:
    return os.path.join(os.environ.get("TEST_SRCDIR", os.getcwd()), relative_path)


def assert_equal_graph_def(actual: Any, expected: Any, checkpoint_v2: bool = False, **_: Any) -> None:
    """The same nodes, in whatever order. Raises AssertionError, naming the first that differs."""
    one, other = ({n.name: n for n in g.node} for g in (actual, expected))
    if set(one) != set(other):
        raise AssertionError(f"The graphs have different nodes: {sorted(set(one) ^ set(other))}")
    for name, node in one.items():
        if node != other[name]:
            raise AssertionError(f"Node {name!r} differs:\n{node}\nand\n{other[name]}")


def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: Any = None) -> bool:
    return any(d.device_type == "GPU" for d in Session(graph=Graph()).list_devices())


def gpu_device_name() -> str:
    """ "/device:GPU:0", or "" where there is none."""
    return "/device:GPU:0" if is_gpu_available() else ""


def is_built_with_cuda() -> bool:
    return is_gpu_available()


is_built_with_gpu_support = is_built_with_cuda


def is_built_with_xla() -> bool:
    """False: sparkflow makes machine code in its own ways."""
    return False


def is_built_with_rocm() -> bool:
    return False


# ---------------------------------------------------------------------- gradients by differences


def compute_gradient(
    x: Any, x_shape: Any, y: Any, y_shape: Any, x_init_value: Any = None, delta: float = 1e-3, init_targets: Any = None,
    extra_feed_dict: Mapping[Any, Any] | None = None,
) -> Any:  # fmt: skip
    """(by the graph, by differences): the Jacobians [elements of x, elements of y] in the default session.

    x: a tensor or a list of them (a list of pairs comes back), with its value x_init_value, random by default.
    init_targets: run first. Raises ValueError without a session.
    """
    session = default_session()
    if session is None:
        raise ValueError("compute_gradient: there is no default session; use `with tf.Session():`")
    for target in nest.flatten(init_targets) if init_targets is not None else ():
        session.run(target)
    many = isinstance(x, (list, tuple))
    xs, sizes = (list(x), list(x_shape)) if many else ([x], [x_shape])
    given = list(x_init_value) if many and x_init_value is not None else [x_init_value] * len(xs)
    starts = [_start(t, size, value) for t, size, value in zip(xs, sizes, given)]
    feeds = {**(extra_feed_dict or {}), **dict(zip(xs, starts))}
    found = [
        (_by_graph(session, t, y, y_shape, feeds), _by_differences(session, t, y, y_shape, feeds, delta)) for t in xs
    ]
    return found if many else found[0]


def compute_gradient_error(*args: Any, **kwargs: Any) -> float:
    """The largest difference between the two Jacobians of compute_gradient."""
    found = compute_gradient(*args, **kwargs)
    pairs = found if isinstance(found, list) else [found]
    return max((float(np.abs(a - b).max()) for a, b in pairs if a.size), default=0.0)


def _start(x: Any, size: Any, value: Any) -> np.ndarray:
    dtype = x.dtype.base_dtype.np
    return np.random.random_sample(size).astype(dtype) if value is None else np.asarray(value, dtype)


def _count(shape: Any) -> int:
    return int(np.prod([int(d) for d in shape], dtype=np.int64))


def _by_graph(session: Any, x: Any, y: Any, y_shape: Any, feeds: Mapping[Any, Any]) -> np.ndarray:
    seed = convert_to_tensor(np.zeros([int(d) for d in y_shape], y.dtype.base_dtype.np))
    dx = gradients(y, x, seed)[0]
    out = np.zeros((feeds[x].size, _count(y_shape)), x.dtype.base_dtype.np)
    for column in range(out.shape[1]):
        one = np.zeros(out.shape[1], y.dtype.base_dtype.np)
        one[column] = 1
        if dx is not None:
            value = session.run(convert_to_tensor(dx), {**feeds, seed: one.reshape([int(d) for d in y_shape])})
            out[:, column] = value.ravel()
    return out


def _by_differences(session: Any, x: Any, y: Any, y_shape: Any, feeds: Mapping[Any, Any], delta: float) -> np.ndarray:
    run: Callable[[np.ndarray], np.ndarray] = lambda value: session.run(y, {**feeds, x: value}).ravel()  # noqa: E731
    out = np.zeros((feeds[x].size, _count(y_shape)), x.dtype.base_dtype.np)
    for row in range(out.shape[0]):
        step = np.zeros(feeds[x].size, feeds[x].dtype)
        step[row] = delta
        step = step.reshape(feeds[x].shape)
        out[row] = (run(feeds[x] + step) - run(feeds[x] - step)) / (2 * delta)
    return out
