"""The command line and its doctor."""

from __future__ import annotations

import json
import os
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow import cli, compile_command
from sparkflow.session.server import Server
from sparkflow_runtime import environment, memory, threads
from sparkflow_runtime.dialling import SECRET_VARIABLE


def lines(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, str]]:
    assert cli.main(["doctor", "--json"]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return {one["name"]: one for one in found}


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*threads.VARIABLES, environment.CORE_TYPE):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(threads, "_limits", [])


def test_doctor_says_what_it_finds(plain: None, capsys: pytest.CaptureFixture[str]) -> None:
    java = os.environ.get("JAVA_HOME")
    found = lines(capsys)
    assert found["numpy"]["value"] == np.__version__
    assert found["BLAS threads"]["value"].endswith("BLAS's own choice")
    assert {"processors", "numba", "BLAS", "freed memory", "GPU", "pyspark", "dask", "Java"} <= set(found)
    assert os.environ.get("JAVA_HOME") == java


def test_doctor_says_who_set_the_threads(
    plain: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "_limits", [threads.Limit(1, "a Server", False)])
    assert "set by a Server" in lines(capsys)["BLAS threads"]["value"]
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert "set by OMP_NUM_THREADS=1" in lines(capsys)["BLAS threads"]["value"]
    monkeypatch.setattr(threads, "processors", lambda: 0)
    assert "OPENBLAS_NUM_THREADS lower" in lines(capsys)["BLAS threads"]["warning"]
    monkeypatch.setenv(memory._SWITCH, "0")
    assert lines(capsys)["freed memory"]["value"] == f"as {memory._SWITCH} says"


def test_doctor_warns_of_a_pinned_core_type(plain: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.CORE_TYPE, "Haswell")
    monkeypatch.setattr(environment, "_probe", lambda changes, measure: ("SkylakeX", 200.0))
    pinned = environment._core_type("Haswell", False)
    assert "pinned by OPENBLAS_CORETYPE=Haswell; OpenBLAS itself would choose SkylakeX" in pinned.value
    assert "env -u OPENBLAS_CORETYPE" in pinned.warning
    assert environment._core_type("SkylakeX", False).warning == ""
    monkeypatch.delenv(environment.CORE_TYPE)
    assert "chosen by OpenBLAS itself" in environment._core_type("SkylakeX", False).value


def test_the_probe_runs_in_a_process_of_its_own() -> None:
    from threadpoolctl import threadpool_info

    own = {info.get("architecture", "?") for info in threadpool_info() if info["user_api"] == "blas"}
    core, rate = environment._probe({}, False)
    assert core in own and rate == 0.0
    assert environment.multiply_rate(64, 2) > 0


def test_text_ends_with_the_warnings(plain: None, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr("sparkflow.doctor.findings", lambda measure: [environment.Finding("a", "b", "do c")])
    monkeypatch.setattr("sparkflow.doctor._engines", lambda: [])
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out == "a:               b\n\nwarning: a: do c\n"


def test_a_wrong_command_line_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["nothing"], ["doctor", "--nothing"]):
        with pytest.raises(SystemExit) as ended:
            cli.main(words)
        assert ended.value.code == 2
    assert "doctor" in capsys.readouterr().err


def test_traffic(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "words")
    servers = [Server.bound("worker", i, "127.0.0.1", b"words") for i in range(2)]
    try:
        for server in servers:
            server.join_cluster({"worker": [s.address for s in servers]})
        with tf.Graph().as_default(), tf.Session(servers[0].target) as session:
            with tf.device("/job:worker/task:1"):
                x = tf.identity(tf.fill([1 << 20], 1.5))
            with tf.device("/job:worker/task:0"):
                y = tf.reduce_sum(x)
            assert session.run(y) == 1.5 * 2**20
        assert cli.main(["traffic", servers[0].address, "--json"]) == 0
        counts = json.loads(capsys.readouterr().out)["/job:worker/replica:0/task:1"]
        assert counts["channels"] >= 1 and counts["frames_sent"] > 0
        assert counts["bytes_received"] + counts["bytes_borrowed"] >= 4 << 20
        assert cli.main(["traffic", servers[0].address]) == 0
        assert "/job:worker/replica:0/task:1" in capsys.readouterr().out
        monkeypatch.setenv(SECRET_VARIABLE, "others")
        assert cli.main(["traffic", servers[0].address]) == 1
        assert "secret" in capsys.readouterr().err
    finally:
        for server in servers:
            server.stop()


def test_compile_keeps_bytecode(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("x = 1\n")
    found = ModuleSpec("package", None, is_package=True)
    found.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(compile_command, "find_spec", lambda name: found if name == "sparkflow" else None)
    monkeypatch.setattr(compile_command, "missing", list)
    assert cli.main(["compile"]) == 0
    assert len(list(tmp_path.glob("__pycache__/module.*.pyc"))) == 1


def test_compile_says_what_it_built(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [["m:one", "m:two"], ["m:two"], []]
    monkeypatch.setattr(compile_command, "missing", lambda: missing.pop(0))
    monkeypatch.setattr(compile_command, "build", lambda names, jobs: f"{names} with {jobs}: no memory")
    assert cli.main(["compile", "--jobs", "3"]) == 1
    said = capsys.readouterr()
    assert "Loops built: 1," in said.out
    assert "1 could not be built: m:two\n['m:one', 'm:two'] with 3: no memory" in said.err
    assert cli.main(["compile"]) == 0
    assert "there already" in capsys.readouterr().out
    assert cli.main(["compile", "--jobs", "0"]) == 1
    assert "--jobs must be positive, got 0" in capsys.readouterr().err
