"""The crew: the same bits as numpy's blocks with any number of threads, many callers at once, forks, busy machines."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.kernels import crew_layout as layout
from sparkflow_runtime.kernels import norm_loops, parallel
from sparkflow_runtime.kernels.compiled import Compiled
from sparkflow_runtime.kernels.crew import ROOM_BYTES, Crew, in_blocks

_FLOATS = (np.float32, np.float64)


def _words(crew: Crew) -> Any:
    return (ctypes.c_int64 * (layout.STATE_BYTES // 8)).from_address(crew._state)


def _multiplied(crew: Crew, a: np.ndarray, b: np.ndarray, length: int) -> np.ndarray:
    out, room = np.empty((len(a), b.shape[1]), a.dtype), np.zeros(ROOM_BYTES, np.uint8)
    assert crew.multiply(a, b, out, length, room.ctypes.data)
    return out


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("turned", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("shape", "length"), [((300, 40, 170), 75), ((33, 50, 260), 128), ((1, 64, 700), 350)])
def test_products(crew: Crew, shape: tuple[int, int, int], length: int, turned: tuple[bool, bool], dtype: Any) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(k, m) if turned[0] else (m, k)), rng.normal(size=(n, k) if turned[1] else (k, n))
    a, b = (x.astype(dtype).T if flip else x.astype(dtype) for x, flip in zip((a, b), turned))
    assert _multiplied(crew, a, b, length).tobytes() == in_blocks(a, b, length).tobytes()


def test_views_with_gaps(crew: Crew) -> None:
    held = np.random.default_rng(1).normal(size=(200, 200)).astype(np.float32)
    a, b = held[::2, 10:50], held[20:60, ::-1]
    assert _multiplied(crew, a, b, 60).tobytes() == in_blocks(a, b, 60).tobytes()


def test_other_types_are_left_to_the_caller(crew: Crew) -> None:
    a = np.ones((4, 4), np.int64)
    assert not crew.multiply(a, a, a.copy(), 2, 0)


@pytest.mark.parametrize("dtype", _FLOATS)
@pytest.mark.parametrize("shape", [(3,), (65, 17), (301, 513)])
def test_sums(crew: Crew, shape: tuple[int, ...], dtype: Any) -> None:
    rng, room = np.random.default_rng(0), np.zeros(ROOM_BYTES, np.uint8)
    held, value = rng.normal(size=shape).astype(dtype), rng.normal(size=shape).astype(dtype)
    wanted = held + value
    assert crew.add(held, value, room.ctypes.data)
    assert held.tobytes() == wanted.tobytes()
    assert shape == (3,) or not crew.add(held.T, value.T, room.ctypes.data)


def test_a_loop_in_parts(crew: Crew) -> None:
    """Each part once, with all arguments; what does not fit the machine code is left to the caller."""
    rng = np.random.default_rng(0)
    up, x = rng.normal(size=(2, 70_000)).astype(np.float32)
    vectors = rng.normal(size=(4, 512)).astype(np.float32)
    descend = Compiled(norm_loops.descend.loop, [s.signature for s in norm_loops.descend.sources])
    made = np.zeros_like(x)
    arrays = [up, x, *vectors, made]
    assert descend.entry(arrays) == 0  # not built yet
    descend.compile()
    assert crew.loop(descend.entry(arrays), arrays, parallel.runs(137, 5))
    wanted = np.zeros_like(x)
    norm_loops.descend.numpy(*arrays[:-1], wanted, 0, 137)
    assert made.tobytes() == wanted.tobytes()
    for other in (up[::2], up.astype(np.float64), up.reshape(-1, 1), 3):
        assert descend.entry([other, *arrays[1:]]) == 0
    assert not crew.loop(descend.entry(arrays), [*arrays, *arrays], [(0, 1)])


def test_many_callers_at_once(crew: Crew) -> None:
    """One has the crew, the others work alone; nobody's blocks get mixed up."""
    rng, failed = np.random.default_rng(2), []

    def call(seed: int) -> None:
        a, b = rng.normal(size=(64, 32)).astype(np.float32) + seed, np.eye(32, 80, dtype=np.float32)
        wanted = in_blocks(a, b, 20)
        for _ in range(300):
            if not np.array_equal(_multiplied(crew, a, b, 20), wanted):
                failed.append(seed)

    threads = [threading.Thread(target=call, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert _words(crew)[layout.BUSY // 8] == 0


def test_threads_without_work_sleep_and_wake(crew: Crew) -> None:
    a = np.ones((64, 8), np.float32)
    for _ in range(5):
        deadline = time.monotonic() + 30
        while _words(crew)[layout.ASLEEP // 8] < 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        _words(crew)[layout.UNTIL // 8] = 0
        assert (_multiplied(crew, a, a.T, 16) == 8).all()


def test_a_pause_is_kept(crew: Crew) -> None:
    """While the machine is known to be busy the caller does all blocks, and publishes no job."""
    words = _words(crew)
    words[layout.UNTIL // 8], before = 1 << 62, words[layout.TICKET // 8]
    a = np.ones((64, 8), np.float32)
    assert (_multiplied(crew, a, a.T, 16) == 8).all()
    assert words[layout.TICKET // 8] == before and words[layout.BUSY // 8] == 0
    words[layout.UNTIL // 8] = 0
    assert (_multiplied(crew, a, a.T, 16) == 8).all()
    assert words[layout.TICKET // 8] != before


def test_no_crew_where_one_thread_is_allowed(crew: Crew) -> None:
    assert not crew.ready(1)
    assert not Crew().ready(4), "its code is not there"


def test_a_product_has_the_same_bits_without_crew(crew: Crew, monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.random.default_rng(3).normal(size=(100, 300)).astype(np.float32)
    for columns, turned in ((90, False), (200, False), (200, True), (900, False), (1200, True)):
        b = np.random.default_rng(4).normal(size=(columns, 300)).astype(np.float32).T
        a, b = a[:32] if turned else a, b if turned else b.copy()
        monkeypatch.setattr(parallel, "crew_for", lambda work: crew)
        found = parallel.product(a, b)
        monkeypatch.setattr(parallel, "crew_for", lambda work: None)
        assert parallel.product(a, b).tobytes() == found.tobytes()


def test_a_matrix_by_itself_has_the_same_bits_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread multiplies such a product whole where BLAS then gives the blocks' bits, but not by its syrk."""
    monkeypatch.setattr(parallel, "_most", lambda: 1)
    a = np.random.default_rng(5).normal(size=(150, 149)).astype(np.float32)
    with parallel.blas_alone():
        for left in (a, a.T):
            blocks = in_blocks(left, left.T, parallel._length(len(left), len(left)))
            assert {parallel.product(left, left.T).tobytes() for _ in range(3)} == {blocks.tobytes()}


def test_a_fork_has_a_crew_of_its_own() -> None:
    code = (
        "import os, numpy as np\n"
        "from sparkflow_runtime.kernels.crew import crew, ROOM_BYTES\n"
        "from sparkflow_runtime.kernels.compiled import make_ready\n"
        "make_ready(crew)\n"
        "a, room = np.ones((64, 8), np.float32), np.zeros(ROOM_BYTES, np.uint8)\n"
        "def right():\n"
        "    out = np.empty((64, 64), np.float32)\n"
        "    assert crew.ready(2) and crew.multiply(a, a.T, out, 16, room.ctypes.data)\n"
        "    return bool((out == 8).all())\n"
        "assert right()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os._exit(0 if crew.helpers == 0 and right() and crew.helpers == 1 else 1)\n"
        "assert os.waitpid(pid, 0)[1] == 0 and right()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ), timeout=120, check=False)
    assert done.returncode == 0
