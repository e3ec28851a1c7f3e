"""Object files that we make ready ourselves give what LLVM's linking gives; others are left to it."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from sparkflow_runtime.kernels import object_files

_HERE = sys.platform == "linux" and llvm.get_process_triple().startswith("x86_64")
pytestmark = pytest.mark.skipif(not _HERE, reason="only x86-64 on Linux")

_TEXT = """
@table = internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17]
@where = internal constant ptr @table
@counted = internal global i64 0
@room = common global [3 x i64] zeroinitializer, align 32
declare ptr @memset(ptr, i32, i64)
declare void @abort()
define i64 @other(i64 %x) noinline { %y = mul i64 %x, 3
  ret i64 %y }
define i64 @sparkflow_entry(i64 %i) {
  %bad = icmp ugt i64 %i, 3
  br i1 %bad, label %end, label %go
end:
  call void @abort()
  unreachable
go:
  %table = load ptr, ptr @where
  %at = getelementptr i64, ptr %table, i64 %i
  %value = load i64, ptr %at
  %times = load i64, ptr @counted
  %more = add i64 %times, 1
  store i64 %more, ptr @counted
  call ptr @memset(ptr @room, i32 1, i64 8)
  %ones = load i64, ptr @room
  %low = and i64 %ones, 65535
  %tripled = call i64 @other(i64 %value)
  %sum = add i64 %tripled, %low
  %out = add i64 %sum, %times
  ret i64 %out
}
"""


def _object(text: str = _TEXT, model: str = "jitdefault") -> bytes:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple()
    jit = model == "jitdefault"
    return bytes(target.create_target_machine(codemodel=model, jit=jit).emit_object(llvm.parse_assembly(text)))


def _call(address: int | None) -> Callable[[int], int]:
    assert address is not None
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)


def test_constants_variables_zeros_and_calls_are_found() -> None:
    code = _object()
    one, two = (_call(object_files.link(code, "sparkflow_entry")) for _ in range(2))
    assert [one(i) for i in (0, 1, 3, 3)] == [21 + 257, 33 + 258, 51 + 259, 51 + 260]
    assert two(2) == 39 + 257, "each file has variables of its own"
    assert _call(object_files.link(code, "other"))(5) == 15


def test_code_cannot_be_written() -> None:
    address = object_files.link(_object(), "sparkflow_entry")
    pages = [line.split() for line in Path("/proc/self/maps").read_text().splitlines()]
    held = [(word[0].split("-"), word[1]) for word in pages]
    (kind,) = [k for (a, z), k in held if int(a, 16) <= (address or 0) < int(z, 16)]
    assert kind == "r-xp"


def test_other_files_are_left_to_llvm() -> None:
    small = _object(model="small")  # addresses in 32 bits
    unknown = _object(_TEXT.replace("@abort", "@no_function_of_libc"))
    for code in (b"", b"\x7fELF", b"\x7fELF\x02\x01\x01" + bytes(200), small[:200], small, unknown):
        assert object_files.link(code, "sparkflow_entry") is None
    assert object_files.link(_object(), "no_such_symbol") is None


def test_llvm_links_what_is_left_to_it() -> None:
    """In a process of its own: addresses in 32 bits do not reach everywhere in one that has much mapped."""
    code = f"""from {__name__} import _object
from sparkflow_runtime.kernels.machine_code import load
print(load(_object(model="small"), 1)(1))"""
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert int(found) == 33 + 257


def test_every_cut_of_a_file_is_refused_or_linked() -> None:
    code = _object()
    for end in range(0, len(code), 37):
        object_files.link(code[:end], "sparkflow_entry")


def test_memory_that_may_not_run_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_files.mmap, "PROT_EXEC", -1)
    with pytest.raises(OSError, match=r"mprotect of .* bytes to be run: Invalid argument"):
        object_files.link(_object(), "sparkflow_entry")


def test_loops_are_loaded_without_llvm() -> None:
    code = (
        "import sys, numpy as np\n"
        "from sparkflow_runtime.kernels.row_loops import first_outside as f\n"
        "assert f.wait(120)\n"
        "sys.exit(f._call is f.numpy or 'llvmlite' in sys.modules)\n"
    )
    for _ in range(2):  # the first may build it
        found = subprocess.run([sys.executable, "-c", code], check=False).returncode
    assert not found
