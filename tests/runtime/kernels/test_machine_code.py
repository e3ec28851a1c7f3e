"""Machine code on disk: what is kept, that it is loaded without numba, and which arguments it refuses."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from sparkflow_runtime.kernels import machine_ahead, machine_build, machine_code, row_loops
from sparkflow_runtime.kernels.compiled import Compiled, registered
from sparkflow_runtime.kernels.loop_parts import Stack
from sparkflow_runtime.kernels.machine_code import Argument, Source


def _source(signature: str) -> Source:
    return Source(__name__, "loop", signature)


def test_arguments_are_read_from_the_signature() -> None:
    text = "void(Array(float32, 3, 'C', readonly=True), int32[:,:,::1], uint64[:, ::1], float64[::1], int64)"
    expected = [("float32", 3), ("int32", 3), ("uint64", 2), ("float64", 1), ("int64", -1)]
    assert _source(text).arguments == [Argument(*pair) for pair in expected]


@pytest.mark.parametrize("kind", ["float32", "float32[:]", "float32[:,:]", "Array(float32, 1, 'A')"])
def test_other_arguments_are_refused(kind: str) -> None:
    with pytest.raises(ValueError, match="no argument"):
        assert _source(f"void({kind})").arguments


@pytest.mark.parametrize("loop", registered(), ids=lambda loop: loop.name)
def test_loops_have_arguments_that_machine_code_takes(loop: Compiled) -> None:
    ours = all(machine_code.is_ours(source.module) for source in loop.sources)
    assert not ours or all(source.fits for source in loop.sources)


def test_numba_is_taught_before_it_builds() -> None:
    taught: list[int] = []
    loop = Compiled(_scaled, _SIGNATURES[:1], before=lambda: taught.append(1))
    assert not loop.kept and not loop.load()
    x, out = np.ones((1, 2), np.float32), np.zeros((1, 2), np.float32)
    assert loop.compile()(out, x, 2) == 1
    assert taught == [1] and out.tolist() == [[2, 2]]


def _scaled(out: Any, x: Any, by: Any) -> int:
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            out[i, j] = x[i, j] * by
    return int(x.shape[0])


def _growing(out: Any, x: Any, by: Any) -> None:
    room = np.empty(by, x.dtype)  # which needs numba's runtime
    for j in range(by):
        room[j] = x[0, j]
    for j in range(by):
        out[0, by - 1 - j] = room[j]


_TILE = Stack("_TILE", 4, 8)


def _doubled(out: Any, x: Any, by: Any) -> int:
    tile, flat = _TILE(), x.reshape(-1)
    for j in range(by):
        tile[j // 8, j % 8] += 2 * flat[j]
    for j in range(by):
        out[0, j] = tile[j // 8, j % 8]
    return int(tile[3, 7])


_SIGNATURES = [f"int64({t}[:,::1], Array({t}, 2, 'C', readonly=True), int64)" for t in ("float32", "float64")]


@pytest.fixture(scope="module")
def scaled() -> Callable[..., Any]:
    return Compiled(_scaled, _SIGNATURES).compile()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_signature_is_chosen_by_type(scaled: Callable[..., Any], dtype: Any) -> None:
    x = np.arange(6, dtype=dtype).reshape(2, 3)
    out = np.zeros_like(x)
    x.flags.writeable = False
    assert scaled(out, x, np.int64(3)) == 2
    assert (out == 3 * x).all()


_FLAT = np.zeros((2, 3), np.float32)
_WRONG = {
    "rank": (_FLAT, _FLAT[0], 1),
    "type": (_FLAT, _FLAT.astype(np.int32), 1),
    "size": (_FLAT, _FLAT.astype(np.float64), 1),
    "type of the first": (_FLAT.astype(np.int64), _FLAT, 1),
    "layout": (_FLAT, _FLAT.T.copy().T, 1),
    "byte order": (_FLAT, _FLAT.astype(">f4"), 1),
}


@pytest.mark.parametrize("args", _WRONG.values(), ids=_WRONG)
def test_arrays_of_another_kind_are_an_error(scaled: Callable[..., Any], args: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError, match="_scaled takes"):
        scaled(*args)


def test_a_loop_that_makes_arrays_is_left_to_numba() -> None:
    loop = Compiled(_growing, ["void(float32[:,::1], float32[:,::1], int64)"])
    assert loop.build_ahead() == [b""]
    x, out = np.arange(3, dtype=np.float32).reshape(1, 3), np.zeros((1, 3), np.float32)
    loop.compile()(out, x, 3)
    assert out.tolist() == [[2, 1, 0]]


def test_memory_of_the_stack_and_views_need_no_numba() -> None:
    loop = Compiled(_doubled, _SIGNATURES[:1], parts=[_TILE])
    call, x = loop.compile(), np.arange(30, dtype=np.float32).reshape(5, 6)
    assert all(loop.build_ahead())
    for fill in (1.0, 0.0):  # the second finds the stack cleared
        out = np.zeros((1, 32), np.float32)
        assert call(out, x + np.float32(fill), 30) == 0
        assert out[0].tolist() == [*(2 * (i + fill) for i in range(30)), 0, 0]


def test_a_child_builds_what_this_process_loads_without_numba(tmp_path: Path) -> None:
    """In a process with an empty cache, and in a second one, numba is never imported."""
    code = (
        "import sys, numpy as np\n"
        "from sparkflow_runtime.kernels.row_loops import first_outside as f\n"
        "a = np.array([1, 9, 3], np.uint64)\n"
        "zero, three, size = (np.array([n], np.uint64) for n in (0, 3, 5))\n"
        "assert f.wait(120)\n"
        "assert f(a, zero, three, size) == 1 and f._call is not f.numpy\n"
        "sys.exit('numba' in sys.modules)\n"
    )
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(2):
        assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == 0
    assert len(list(tmp_path.glob("row_loops.first_outside.*.o"))) == 1


def test_what_another_child_builds_is_left_to_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    built: list[str] = []
    with machine_build.held("a:loop", wait=True) as mine:
        assert mine
        with machine_build.held("a:loop", wait=False) as again:  # a lock is of an open file, not of a process
            assert not again
        with machine_build.held("a:other", wait=False) as other:
            assert other
    monkeypatch.setattr(machine_build, "import_module", lambda name: SimpleNamespace(one=_Noted(built, "one")))
    with machine_build.held("m:one", wait=True):
        assert not machine_build._built_alone("m:one", wait=False)
    assert not built
    assert machine_build._built_alone("m:one", wait=True)
    assert built == ["one"]


WANTS = """
import logging, sys, time
logging.basicConfig(level=logging.INFO)
from sparkflow_runtime.kernels.row_loops import first_outside as loop
loop.prepare()
print("begun", flush=True)
sys.exit(not loop.wait(60) or "numba" in sys.modules)
"""


def wanting(folder: Path) -> subprocess.Popen[str]:
    env, pipe = os.environ | {"NUMBA_CACHE_DIR": str(folder)}, subprocess.PIPE
    return subprocess.Popen([sys.executable, "-c", WANTS], env=env, stdout=pipe, stderr=pipe, text=True)


def test_of_processes_that_want_a_loop_at_once_one_has_it_built(tmp_path: Path) -> None:
    """Each had a child of its own that imported numba, and a dozen of them took minutes for what takes seconds."""
    processes = [wanting(tmp_path) for _ in range(4)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, said
    assert sum("Building 1 loops" in text for text in said) == 1
    assert len(list(tmp_path.glob("row_loops.first_outside.*.o"))) == 1


def test_a_loop_is_built_on_where_the_program_has_ended(tmp_path: Path) -> None:
    first = wanting(tmp_path)
    assert first.stderr is not None
    while "Building 1 loops" not in first.stderr.readline():
        pass
    (lock,) = tmp_path.glob("*.lock")
    until = time.monotonic() + 60
    while _holders(lock) < 2 and time.monotonic() < until:
        time.sleep(0.002)
    first.kill()
    first.communicate()
    second = wanting(tmp_path)
    said = second.communicate(timeout=120)[1]
    assert second.returncode == 0 and "Building" not in said


def _holders(lock: Path) -> int:
    """Processes that have the file open (Linux)."""
    found = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            found += any(link.resolve() == lock for link in Path(f"/proc/{process.pid}/fd").iterdir())
    return found


class _Noted:
    def __init__(self, built: list[str], name: str):
        self.built, self.name = built, name

    def build_ahead(self) -> None:
        self.built.append(self.name)


def test_what_lies_beside_the_package_is_found_by_those_who_cannot_write_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    everybody, own = tmp_path / "everybody", tmp_path / "own"
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setattr(machine_code, "_folders", lambda wanted: (everybody, own))
    source = row_loops.first_outside.sources[0]
    for folder, code in ((own, b"own"), (everybody, b"everybody's")):
        monkeypatch.setattr(machine_code, "_writable", lambda wanted, folder=folder: folder)
        assert machine_code.keep(source, code)
        assert machine_code.read(source) == code


def test_every_loop_can_be_built_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    names = machine_ahead.missing()
    modules = {name.partition(":")[0] for name in names}
    makers = ("row_loops", "crew", "fused_machine", "conv_direct", "spread_products")
    assert {f"sparkflow_runtime.kernels.{m}" for m in makers} <= modules
    assert "sparkflow_runtime.records.example_loops" in modules and len(names) == len(set(names)) > 80
    two = ["sparkflow_runtime.kernels.row_loops:first_outside", "sparkflow_runtime.kernels.update_loops:momentum"]
    assert set(two) <= set(names)
    assert machine_ahead.build(two, 2) == ""
    assert set(machine_ahead.missing()) == set(names) - set(two)
    assert "no_such_loop" in machine_ahead.build(["sparkflow_runtime.kernels.row_loops:no_such_loop"], 1)


def test_no_place_for_files_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    source = row_loops.first_outside.sources[0]
    assert machine_code.read(source) is None
    assert not machine_code.keep(source, b"code")
    assert machine_code.lock_file("a:loop") is None
    with machine_build.held("a:loop", wait=False) as mine:
        assert mine


def test_another_text_is_other_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    source = row_loops.first_outside.sources[0]
    assert machine_code.keep(source, b"code")
    assert machine_code.read(source) == b"code"
    monkeypatch.setattr(machine_code, "_texts", lambda module: "changed")
    assert machine_code.read(source) is None


def test_code_depends_on_the_text_of_what_it_is_made_of() -> None:
    ours = "sparkflow_runtime.kernels"
    native, layout, build = (machine_code.text(f"{ours}.{m}") for m in ("crew_native", "crew_layout", "machine_build"))
    assert machine_code._texts(f"{ours}.crew_native") == native + layout + build
    tiles = machine_code._texts(f"{ours}.conv_tiles")
    assert machine_code.text(f"{ours}.conv_tile_lanes") in tiles, "imported where it is needed, as part of the code"
    windows, parts = (machine_code.text(f"{ours}.{m}") for m in ("window_loops", "loop_parts"))
    assert machine_code._texts(f"{ours}.window_loops") == windows + parts, "not on `compiled`'s"
