"""Model functions on their way to processes that have imported their modules before."""

from __future__ import annotations

import importlib
import linecache
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sparkflow_connectors import shipping
from sparkflow_connectors.shipping import Shipped


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module that imports another one; their names are gone afterwards."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setattr(shipping, "_stamps", {})
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_layers.py").write_text("WIDTH = 8\n")
    (tmp_path / "my_model.py").write_text("import my_layers\ndef model_fn():\n    return my_layers.WIDTH\n")
    yield importlib.import_module("my_model")
    for name in ("my_model", "my_layers"):
        sys.modules.pop(name, None)


def test_a_kept_process_trains_by_the_files_as_they_are(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It trained by what it had imported, without a word, while the driver's model was another one."""
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    sent = pickle.dumps(Shipped(program.model_fn))
    first = pickle.loads(sent)
    assert first() == 8 and pickle.loads(sent) is first, "what has not changed is not imported again"
    (tmp_path / "my_layers.py").write_text("WIDTH = 16\n")
    again = pickle.loads(sent)
    assert again() == 16 and pickle.loads(sent) is again
    (tmp_path / "my_model.py").write_text("def model_fn():\n    return 1\n")
    assert pickle.loads(sent)() == 1
    (tmp_path / "my_model.py").unlink()
    assert pickle.loads(sent)() == 1, "a file that is gone has not changed"


def test_other_processes_keep_their_modules(program: Any, tmp_path: Path) -> None:
    """As a Dask worker, in which others' tasks run: its children import them anew."""
    sent = pickle.dumps(Shipped(program.model_fn))
    (tmp_path / "my_model.py").write_text("def model_fn():\n    return 1\n")
    assert pickle.loads(sent) is program.model_fn and not shipping._stamps


def test_only_the_programs_own_modules_are_forgotten(program: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.worker", ModuleType("pyspark.worker"))
    pickle.loads(pickle.dumps(Shipped(program.model_fn)))
    assert {"my_model", "my_layers"} <= set(shipping._stamps)
    tops = {name.partition(".")[0] for name in shipping._stamps}
    assert not tops & {"sparkflow", "sparkflow_runtime", "sparkflow_connectors", "numpy", "pyarrow", "os", "json"}


_CELL = """
def model_fn():
    import sparkflow as tf

    def wanted(x):
        if x == 2:
            return x
        return -x

    with tf.Graph().as_default(), tf.Session() as session:
        row = tf.data.make_one_shot_iterator(tf.data.Dataset.range(1, 3).map(wanted)).get_next()
        return [int(session.run(row)) for _ in range(2)]
"""
_READER = "import pickle, sys; print(pickle.load(sys.stdin.buffer)())"


def test_the_source_of_a_notebooks_cell_comes_along() -> None:
    """Workers ran its functions of datasets without AutoGraph: `if` failed there, and == was never true."""
    name = "/nowhere/cell_1.py"
    linecache.cache[name] = (len(_CELL), None, _CELL.splitlines(keepends=True), name)
    cell: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(_CELL, name, "exec"), cell)
    try:
        sent = pickle.dumps(Shipped(cell["model_fn"]))
    finally:
        del linecache.cache[name]
    read = subprocess.run([sys.executable, "-c", _READER], check=False, input=sent, capture_output=True, timeout=50)
    assert read.stdout.split() == [b"[-1,", b"2]"], read.stderr.decode()
