"""tf.test.Benchmark: how long a fetch takes, and where it is written down."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sparkflow.session.session import Session
from sparkflow_runtime.wire.errors import UnimplementedError

_REPORTS = "TEST_REPORT_FILE_PREFIX"  # the environment's: the first part of the names of the files of results


class Benchmark:
    """A class whose methods `benchmark...` are run by tf.test.main(), where it is told --benchmarks=<pattern>."""

    def evaluate(self, tensors: Any) -> Any:
        """The values, in a session of their own graph."""
        with Session() as session:
            return session.run(tensors)

    def run_op_benchmark(
        self, sess: Session, op_or_tensor: Any, feed_dict: Any = None, burn_iters: int = 2, min_iters: int = 10,
        store_trace: bool = False, store_memory_usage: bool = True, name: str | None = None,
        extras: Mapping[str, Any] | None = None, mbs: float = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Runs the op burn_iters times, and then min_iters times by the clock; reports and returns what was seen.

        mbs: the megabytes that one run moves, for a throughput. The results have iters, the median wall_time in
        seconds, extras and throughput. The memory that is used is not looked at (store_memory_usage).

        Raises UnimplementedError where store_trace asks for a trace.
        """
        if store_trace:
            raise UnimplementedError(
                "run_op_benchmark: store_trace is not supported. Run the op with a RunOptions of FULL_TRACE instead"
            )
        run = sess.make_callable(op_or_tensor, list(feed_dict or {}))
        values = list((feed_dict or {}).values())
        for _ in range(burn_iters):
            run(*values)
        seconds = np.array([_seconds(run, values) for _ in range(max(min_iters, 1))])
        found: dict[str, Any] = {
            "iters": len(seconds),
            "wall_time": float(np.median(seconds)),
            "extras": {
                "wall_time_mean": float(seconds.mean()), "wall_time_stdev": float(seconds.std()), **(extras or {})
            },
            "throughput": mbs / float(np.median(seconds)),
        }  # fmt: skip
        self.report_benchmark(
            found["iters"], None, found["wall_time"], found["throughput"] if mbs else None, found["extras"], name
        )
        return found

    def report_benchmark(
        self, iters: int | None = None, cpu_time: float | None = None, wall_time: float | None = None,
        throughput: float | None = None, extras: Mapping[str, Any] | None = None, name: str | None = None,
        metrics: Any = None,
    ) -> None:  # fmt: skip
        """One result: a line of what is told here, and of the same as JSON in a file where TEST_REPORT_FILE_PREFIX
        says where. extras: numbers or texts.

        Raises TypeError on extras of another type.
        """
        for key, value in (extras or {}).items():
            if not isinstance(value, (int, float, str, np.number)):
                raise TypeError(f"report_benchmark: extras[{key!r}] must be a number or a string, got {value!r}")
        called = f"{type(self).__name__}.{name or _caller()}"
        given = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput}
        told = {key: value for key, value in given.items() if value is not None}
        more = {key: value if isinstance(value, str) else float(value) for key, value in (extras or {}).items()}
        entry = {"name": called, **told, "extras": more, "metrics": list(metrics or [])}
        print("entry", json.dumps(entry), file=sys.stdout)
        prefix = os.environ.get(_REPORTS)
        if prefix:
            path = Path(f"{prefix}{called.replace('/', '__')}")
            if path.exists():
                raise OSError(f"report_benchmark: {str(path)!r} is there already. Name another {_REPORTS}")
            path.write_text(json.dumps(entry))


def _seconds(run: Any, values: list[Any]) -> float:
    begun = time.perf_counter()
    run(*values)
    return time.perf_counter() - begun


def _caller() -> str:
    """The benchmark's method that asks for the report."""
    return next((name for name in _callers() if name.startswith("benchmark")), "unknown")


def _callers() -> Iterator[str]:
    frame = sys._getframe(1)
    while frame.f_back is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


def benchmarks_asked_for(argv: Sequence[str] | None = None) -> str | None:
    """The pattern after --benchmarks; "." of all, as "all" is; None where there is no such argument."""
    for argument in sys.argv if argv is None else argv:
        flag, _, pattern = argument.partition("=")
        if flag.lstrip("-") == "benchmarks" and flag.startswith("-"):
            return "." if pattern in ("", "all") else pattern
    return None


def run_benchmarks(pattern: str) -> None:
    """Every method `benchmark...` of the classes made of Benchmark, as `Class.method`, that the pattern fits."""
    for kind in _made_of(Benchmark):
        for method in sorted(name for name in dir(kind) if name.startswith("benchmark")):
            if re.search(pattern, f"{kind.__name__}.{method}"):
                getattr(kind(), method)()


def _made_of(kind: type) -> Iterator[type]:
    made: type
    for made in kind.__subclasses__():
        yield made
        yield from _made_of(made)
