"""What Spark says of a task's error, as the error it was."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("pyspark")

import sparkflow as tf
from sparkflow_connectors import launch
from sparkflow_connectors.spark import SparkEngine, SparkRun, _sent
from sparkflow_connectors.spark_connect import host_of
from sparkflow_connectors.spark_errors import cancelled, lost, name_errors, named, noted, unread
from sparkflow_connectors.unshipped import not_in_dask, not_in_spark

TASK = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "packing.py", line 115, in tensors_of
    raise InvalidArgumentError(
sparkflow_runtime.wire.errors.InvalidArgumentError: """


JVM = "\n\nJVM stacktrace:\njava.lang.Error: x\n\tat y"


@pytest.mark.parametrize("after", ["", "\n SQLSTATE: 38000", JVM, f"\n SQLSTATE: 38000{JVM}"])
def test_the_short_message(after: str) -> None:
    found = named(RuntimeError(f"{TASK}Column 'x' is null\nat row 7{after}"))
    assert isinstance(found, tf.errors.InvalidArgumentError) and str(found) == "Column 'x' is null\nat row 7"


def test_the_last_of_several() -> None:
    first = f"{TASK}a\n\nThe above exception was the direct cause of the following exception:\n\nTraceback:\n"
    found = named(RuntimeError(f"{first}sparkflow_runtime.wire.errors.DataLossError: f: is damaged"))
    assert isinstance(found, tf.errors.DataLossError) and found.message == "f: is damaged"
    found = named(RuntimeError(f"{first}ValueError: of somebody else"))
    assert isinstance(found, tf.errors.InvalidArgumentError) and found.message == "a"


def test_what_is_not_ours_stays() -> None:
    assert named(RuntimeError("ValueError: no")) is None
    assert named(RuntimeError("sparkflow_x.NoSuchError: no")) is None
    wrapping, inner = RuntimeError("Job aborted"), tf.errors.NotFoundError(None, None, "gone")
    wrapping._cause = inner  # type: ignore[attr-defined]
    assert named(wrapping) is inner


def test_tasks_of_another_environment() -> None:
    unpickled = "    return cloudpickle.loads(obj)\n           ^^^^\nModuleNotFoundError: No module named "
    found = named(RuntimeError(f"{unpickled}'sparkflow_connectors'\n SQLSTATE: 38000{JVM}"))
    assert isinstance(found, tf.errors.FailedPreconditionError)
    assert "no module 'sparkflow_connectors'" in found.message and "PYSPARK_PYTHON" in found.message
    assert named(RuntimeError(f"{unpickled}'my_model'")) is None


def test_a_session_whose_jvm_has_ended() -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    session, rows = SimpleNamespace(conf=SimpleNamespace(get=refused)), SimpleNamespace(mapInArrow=refused)
    engine = SparkEngine(cast(Any, session), cast(Any, rows), None, cast(Any, None))
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"JVM .* has ended"):
        engine.driver_host()
    with pytest.raises(
        tf.errors.FailedPreconditionError, match=r"JVM .* has ended \(.*refused\).* the last checkpoint"
    ):
        engine.start(cast(Any, SimpleNamespace(run_id="x", attempt=2, workers=1)))


@pytest.mark.parametrize(
    "settings, found",
    [
        ({"spark.driver.host": "a"}, ("a", "a")),
        ({"spark.driver.host": "a", "spark.driver.bindAddress": "0.0.0.0"}, ("a", "0.0.0.0")),
        ({"spark.driver.host": "[::1]", "spark.driver.bindAddress": "::"}, ("[::1]", "[::]")),
        ({"spark.driver.host": "fd77::1"}, ("[fd77::1]", "[fd77::1]")),
    ],
)
def test_a_driver_listens_where_spark_does(settings: dict[str, str], found: tuple[str, str]) -> None:
    session = SimpleNamespace(conf=SimpleNamespace(get=settings.get), _sc=SimpleNamespace())
    assert SparkEngine(cast(Any, session), cast(Any, None), None, cast(Any, None)).driver_host() == found


def test_hosts_of_executors() -> None:
    told = ["h:1", "10.0.0.1:2", "fd77:0:0:0:0:0:0:3:38127", "[fd77::3]:4"]
    assert [host_of(address) for address in told] == ["h", "10.0.0.1", "[fd77:0:0:0:0:0:0:3]", "[fd77::3]"]


def test_modules_that_only_the_program_has() -> None:
    unpickled = f"{TASK}\n    return cloudpickle.loads(obj)\n           ^^^^\nModuleNotFoundError: No module named "
    found = not_in_spark(RuntimeError(f"{unpickled}'models.deep'\n SQLSTATE: 38000{JVM}"))
    assert found is not None and "no module 'models.deep'" in found.message and "addPyFile" in found.message
    assert not_in_spark(RuntimeError("ModuleNotFoundError: No module named 'of_a_line'")) is None
    error = RuntimeError("Error during deserialization of the task graph")
    assert not_in_dask(error) is not_in_dask(None) is None
    error.__cause__ = ModuleNotFoundError("No module named 'models'", name="models")
    told = not_in_dask(error)
    assert told is not None and "no module 'models'" in told.message and "upload_file" in told.message


UNREAD = "An error occurred\n: a.b.SparkException: [FAILED_READ_FILE.{}] Encountered error while reading file {}"
FILE = "file:///t/1.parquet"


@pytest.mark.parametrize(
    "kind, text, error, message",
    [
        (
            "NO_HINT", f"{FILE}.  SQLSTATE: KD001\n\tat x\nCaused by: java.io.IOException: not a Parquet file\n\tat y",
            tf.errors.DataLossError, f"{FILE}: Spark cannot read the file: not a Parquet file",
        ),
        (
            "PARQUET_COLUMN_DATA_TYPE_MISMATCH",
            f"{FILE}. Column [k]. Expected Spark type int, actual Parquet type BINARY. SQLSTATE: KD001\n\tat x",
            tf.errors.InvalidArgumentError,
            f"{FILE}: Spark cannot read the file: Column [k]. Expected Spark type int, actual Parquet type BINARY.",
        ),
        (
            "FILE_NOT_EXIST", f"{FILE}. Gone. SQLSTATE: K",
            tf.errors.NotFoundError, f"{FILE}: Spark cannot read the file: Gone.",
        ),
    ],
)  # fmt: skip
def test_a_file_that_spark_cannot_read(kind: str, text: str, error: type[Exception], message: str) -> None:
    found = unread(RuntimeError(UNREAD.format(kind, text)))
    assert type(found) is error and str(found) == message
    assert unread(RuntimeError("another")) is None


STAGE = """An error occurred while calling o75.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Could not recover from a failed barrier \
ResultStage. Most recent failure reason: {}
	at org.apache.spark.scheduler.DAGScheduler.x(DAGScheduler.scala:4568)"""
TASK_ENDED = "Stage failed because barrier task ResultTask(2, 0) finished unsuccessfully.\n"


@pytest.mark.parametrize(
    "reason, what",
    [
        (
            f"{TASK_ENDED}ExecutorLostFailure (executor 1 exited caused by one of the running tasks) Reason: Command "
            "exited with code 137",
            "executor 1 exited caused by one of the running tasks: Command exited with code 137",
        ),
        (
            f"{TASK_ENDED}org.apache.spark.SparkException: EOFException occurred while reading the port number from "
            "pyspark.daemon's stdout.",
            "EOFException occurred while reading the port number from pyspark.daemon",
        ),
        (
            "org.apache.spark.shuffle.MetadataFetchFailedException: Missing an output location for shuffle 2",
            "Missing an output location for shuffle 2",
        ),
        (
            f"{TASK_ENDED}org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)",
            "Python worker exited unexpectedly (crashed)",
        ),
    ],
)
def test_a_task_that_spark_lost_may_be_tried_again(reason: str, what: str) -> None:
    found = lost(RuntimeError(STAGE.format(reason)))
    assert isinstance(found, tf.errors.UnavailableError) and f"Spark lost a task ({what})." in found.message


def test_a_task_that_failed_of_itself_is_not_lost() -> None:
    crash = f"{TASK_ENDED}Python worker exited unexpectedly (crashed)"
    assert lost(RuntimeError("Task 0 failed 4 times: ExecutorLostFailure (executor 1 exited) Reason: 137")) is None
    assert lost(RuntimeError(STAGE.format(f"{TASK_ENDED}[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012"))) is None
    assert lost(RuntimeError(STAGE.format(f"{crash}\nTraceback (most recent call last):\nValueError"))) is None
    assert lost(tf.errors.NotFoundError(None, None, STAGE.format(crash))) is None


def test_what_ended_a_task_is_told_in_a_line() -> None:
    """The first line of Py4J's error was all that was told of it."""
    python = "o.a.s.PythonException: [PYTHON_EXCEPTION] An exception was thrown: Traceback (most recent call last):\n"
    lines = "  File \"spark.py\", line 336, in run\n    del environ[NAME]\nKeyError: 'NAME'\n SQLSTATE: 38000\n\tat x"
    error = RuntimeError(STAGE.format(f"{TASK_ENDED}{python}{lines}"))
    assert noted(error) is error and error.__notes__ == ["Spark's task 0 failed: KeyError: 'NAME'"]
    assert launch._in_a_line(error) == "Spark's task 0 failed: KeyError: 'NAME'"
    given_up = noted(
        RuntimeError(
            "An error occurred while calling o1.collectToPython.\n: org.apache.spark.SparkException: Job aborted due "
            "to stage failure: Task 2 in stage 3.0 failed 4 times, most recent failure: Lost task 2.3 in stage 3.0 "
            "(TID 8) (host executor 1): ExecutorLostFailure (executor 1 exited) Reason: Command exited with code 137\n"
        )
    )
    assert launch._in_a_line(given_up) == (
        "Spark's task 2 failed 4 times, as often as spark.task.maxFailures says (executor 1 exited: Command exited "
        "with code 137). Look for why in its executor's log"
    )
    other = noted(RuntimeError("another"))
    assert not hasattr(other, "__notes__") and launch._in_a_line(other) == "RuntimeError: another"


@pytest.mark.parametrize(
    "text, how",
    [
        (": o.a.s.SparkException: [SPARK_JOB_CANCELLED] Job 3 cancelled  SQLSTATE: XXKDA\n\tat x", "Job 3 cancelled"),
        (
            ": o.a.s.SparkException: Job 1 cancelled because SparkContext was shut down\n\tat x",
            "Job 1 cancelled because SparkContext was shut down",
        ),
        ("[OPERATION_CANCELED] Operation has been canceled. SQLSTATE: HY008", "Operation has been canceled"),
    ],
)
def test_a_job_that_somebody_cancelled(text: str, how: str) -> None:
    assert cancelled(RuntimeError(f"An error occurred\n{text}")) == how
    assert cancelled(RuntimeError(STAGE.format(TASK_ENDED))) is None


def ended(said: str, stopped: bool = False) -> None:
    """What a run of Spark makes of an error that says this."""

    class Tasks:
        def collect(self) -> None:
            raise RuntimeError(said)

    class Group:
        def enter(self) -> None:
            pass

        def leave(self) -> None:
            pass

        def is_stopped(self) -> bool:
            return stopped

    run = object.__new__(SparkRun)
    run._group, run._error = Group(), None  # type: ignore[assignment]
    run._collect(Tasks())  # type: ignore[arg-type]
    run.ended()


def test_a_run_of_spark_ends_with_what_can_be_tried_again() -> None:
    with pytest.raises(tf.errors.UnavailableError, match="Spark lost a task"):
        ended(STAGE.format("FetchFailed(BlockManagerId(1, host), shuffleId=2)"))


@pytest.mark.parametrize("said, stopped", [("[SPARK_JOB_CANCELLED] Job 3 cancelled", False), ("no JVM", True)])
def test_a_run_that_was_cancelled_is_not_tried_again(said: str, stopped: bool) -> None:
    with pytest.raises(tf.errors.CancelledError, match=r"cancelled: (Job 3|the session was stopped)") as raised:
        ended(said, stopped)
    assert launch._is_final(raised.value)


def test_spark_asks_once() -> None:
    from pyspark.errors.exceptions import captured

    name_errors()
    first = captured.convert_exception
    name_errors()
    assert captured.convert_exception is first and first.names_errors  # type: ignore[attr-defined]


def test_rows_that_break_off_tell_of_a_lost_task() -> None:
    def batches() -> Any:
        yield "a batch"
        raise EOFError

    sent = _sent(batches())
    assert next(sent) == "a batch"
    with pytest.raises(tf.errors.UnavailableError, match=r"Spark's rows broke off \(EOFError: \)"):
        next(sent)
