"""Checksums while other threads import what their package imports."""

from __future__ import annotations

import subprocess
import sys

_TWO_IMPORTS = """
import importlib, sys, threading, time
from sparkflow_runtime.wire.checksums import crc32c

assert "importlib.resources" not in sys.modules
inside, errors = threading.Event(), []

bootstrap = sys.modules["importlib._bootstrap"]
make = bootstrap.module_from_spec

def slowly(spec):  # with the lock of its import held, and nothing of it in sys.modules
    if spec.name == "importlib.resources" and not inside.is_set():
        inside.set()
        time.sleep(0.5)
    return make(spec)

def other():
    try:
        import importlib.resources
    except BaseException as error:
        errors.append(error)

bootstrap.module_from_spec = slowly
thread = threading.Thread(target=other)
thread.start()
inside.wait()
assert crc32c(b"123456789") == 0xE3069283
thread.join()
assert not errors, errors
"""


def test_the_first_checksum_may_come_while_another_thread_loads_machine_code() -> None:
    done = subprocess.run([sys.executable, "-c", _TWO_IMPORTS], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
