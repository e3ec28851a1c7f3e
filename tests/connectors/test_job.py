"""What a Job refuses before anything starts, and its checkpoint directory."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pytest

from sparkflow_connectors import directory
from sparkflow_connectors.job import Job, job_of
from sparkflow_connectors.schema import Columns
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError


def _job(path: Any = "out", **options: Any) -> Job:
    return Job(lambda: None, Columns({}), path, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "workers must be a whole number of at least 1, got 0"),
        ({"epochs": 1.5}, "epochs must be a whole number of at least 1, got 1.5"),
        ({"summary_steps": 0}, "summary_steps must be a whole number of at least 1, got 0"),
        ({"max_restarts": -1}, "max_restarts must be a whole number of at least 0, got -1"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 2**63}, "seed must be"),
        ({"step_timeout_s": -1}, "step_timeout_s must be a positive number of seconds, got -1"),
        ({"checkpoint_s": "10"}, "checkpoint_s must be a positive number of seconds, got '10'"),
        ({"validation": "a tenth"}, r"validation must be a fraction in \[0, 1\), got 'a tenth'"),
        ({"validation": 1.0}, r"validation must be a fraction in \[0, 1\), got 1.0"),
        ({"ps": 3, "workers": 2}, "ps is 3 and workers 2"),
        ({"workers": True}, "workers must be a whole number of at least 1, got True"),
        ({"batch_size": "64"}, "batch_size must be a whole number of at least 1, got '64'"),
        ({"sync": "no"}, "sync must be True or False, got 'no'"),
        ({"any_rows": 1}, "any_rows must be True or False, got 1"),
        ({"step_timeout_s": float("inf")}, r"step_timeout_s must be at least 0.001 and below 1e\+08 seconds, got inf"),
        ({"step_timeout_s": 1e-9}, "step_timeout_s must be at least 0.001 and below"),
        ({"keepalive_s": 1e6}, r"keepalive_s must be at least 0.1 and below 1e\+06 seconds, got 1000000.0"),
        ({"keepalive_s": True}, "keepalive_s must be a positive number of seconds, got True"),
        ({"params": [1]}, "params must be a dict of what the model function reads by name, got list"),
    ],
)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        _job(**options)


def test_options_of_numpy() -> None:
    """They travel as Python's, in JSON and in protobufs."""
    job = _job(workers=np.int64(2), sync=np.True_, step_timeout_s=np.float32(30), validation=np.float32(0.25))
    found = job.workers, job.sync, job.step_timeout_s, job.validation
    assert found == (2, True, 30.0, 0.25) and [type(v) for v in found] == [int, bool, float, float]
    assert _job(checkpoint_s=float("inf"), carried_as=None).carried_as == "float32"


class _Estimator:
    def model_fn(self, features: Any, labels: Any, mode: str) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("given", "said"),
    [(None, "got None$"), (int, "got <class 'int'>$"), (_Estimator(), "An Estimator's is its model_fn")],
)
def test_model_functions_that_are_none(given: Any, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"model_fn must be a function of .*{said}"):
        job_of(given, Columns({}), "out", {})


def test_options_that_there_are_not() -> None:
    for name, said in (
        ("epoch", "did you mean 'epochs'[?]"),
        ("zzz", "there are workers, ps, .*, threads$"),
        ("run_id", ""),
    ):
        with pytest.raises(InvalidArgumentError, match=f"Option {name!r} of train is unknown: {said}"):
            job_of(lambda: None, Columns({}), "out", {name: 3})


def test_the_directory_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/somebody")
    assert _job("a/b").checkpoint_dir == str(tmp_path / "a" / "b")
    assert _job(Path("~/x")).checkpoint_dir == "/somebody/x"
    assert _job(params=None).params == {}
    (tmp_path / "file").write_text("")
    for path, message in (
        ("", "got ''"),
        (None, "got None"),
        ("s3://b/x", "the URL 's3://b/x'"),
        ("file", "is a file"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            _job(path)


def test_one_training_at_a_time(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    second = directory.locked(out)
    with directory.locked(out), pytest.raises(FailedPreconditionError, match=rf"Another training .*{os.getpid()}"):
        second.__enter__()
    with directory.locked(out):
        pass
    assert os.listdir(out) == []


def test_a_killed_driver_lets_go(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys\nfrom sparkflow_connectors import directory\n"
        "with directory.locked(sys.argv[1]):\n    os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False).returncode == -9
    assert os.listdir(tmp_path) == [".training"]
    with directory.locked(str(tmp_path)):
        pass


def test_a_directory_nobody_used_goes_again(tmp_path: Path) -> None:
    with pytest.raises(ValueError), directory.locked(str(tmp_path / "new")):
        raise ValueError
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    below = directory.locked(str(tmp_path / "file" / "below"))
    with pytest.raises(InvalidArgumentError, match="cannot be written: Not a directory"):
        below.__enter__()


@pytest.mark.parametrize("state", [None, "", "garbage", 'model_checkpoint_path: "gone"'])
def test_checkpoints_are_not_overlooked(tmp_path: Path, state: str | None) -> None:
    assert directory.latest(str(tmp_path)) is None
    (tmp_path / "model.ckpt-7.index").write_text("")
    if state is not None:
        (tmp_path / "checkpoint").write_text(state)
    with pytest.raises(FailedPreconditionError, match=r"holds checkpoints \(model.ckpt-7\), but"):
        directory.latest(str(tmp_path))
    (tmp_path / "model.ckpt-12.index").write_text("")
    with pytest.raises(
        FailedPreconditionError, match=r"ckpt-7, model.ckpt-12\), but .*Write .*path: \"model.ckpt-12\""
    ):
        directory.latest(str(tmp_path))
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"')
    assert directory.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-7")


def test_a_model_function_keeps_the_name_of_its_file(tmp_path: Path) -> None:
    """A worker's error told of line 9 of "<dynamic-code>". Dask's pickle comes first, then this package's own."""

    def model_fn() -> Any:
        return lambda: 1

    job = pickle.loads(cloudpickle.dumps(Job(model_fn, Columns({}), str(tmp_path), params={"a": 1})))
    again = pickle.loads(cloudpickle.dumps(job))
    assert again.model_fn is not model_fn
    assert again.model_fn.__code__.co_filename == again.model_fn().__code__.co_filename == __file__
    assert {**again.__dict__, "model_fn": 0} == {**job.__dict__, "model_fn": 0} and again.params == {"a": 1}


def test_a_relative_directory_without_a_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgumentError, match="'out' is relative, and this process's working"):
        _job("out")
    assert _job(str(tmp_path)).checkpoint_dir == str(tmp_path)
