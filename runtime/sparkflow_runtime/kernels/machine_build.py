"""Machine code by numba, in the form that machine_code.py keeps; and the child process that builds it.

numba's wrapper of a C function can raise Python errors; none of our loops does. What it would call for that is replaced
by an end of the process, so that the object file stands alone. A loop that needs numba's runtime (it makes arrays)
has no such form.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np import arrayobj

from sparkflow_runtime.kernels.machine_code import ENTRY, REFUSED, Source, keep, lock, read, target_machine

OPTIONS: dict[str, Any] = {"fastmath": False, "error_model": "numpy"}  # a division by 0 is inf, as numpy's
_HEAD = object.__basicsize__
_OUTSIDE = re.compile(r"^declare (?:noalias )?(?P<type>[\w*]+) @(?P<name>[\w.]+)\((?P<args>[^)]*)\).*$", re.MULTILINE)
_ERRORS = re.compile(r"(numba_(?!attempt_nocopy)|Py|NRT_(?!MemInfo_alloc|Allocate|Realloc))")
_RESHAPE = "numba_attempt_nocopy_reshape"
_LIBC = {"memset", "memcpy", "memmove", "sqrt", "sqrtf", "abort"}

# ---------------------------------------------------------------------- memory by address


def _load(kind: ir.IntType) -> Any:
    def typed(typingctx: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            value = builder.load(builder.inttoptr(args[0], kind.as_pointer()))
            return value if kind.width == 64 else builder.zext(value, ir.IntType(64))

        return types.int64(types.int64), generate

    return intrinsic(typed)


def _pointer(typingctx: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return types.voidptr(types.int64), generate


pointer: Any = intrinsic(_pointer)  # of an address, for carray
get64, get32, get8 = _load(ir.IntType(64)), _load(ir.IntType(32)), _load(ir.IntType(8))


@numba.njit
def _other(array: int, kind: int, size: int, rank: int) -> bool:
    """Whether the ndarray at an address has another type or rank, or is not aligned and contiguous."""
    dtype = get64(array + _HEAD + 40)
    if get8(dtype + _HEAD + 8) != kind or get64(dtype + _HEAD + 24) != size or get8(dtype + _HEAD + 10) == 62:
        return True  # 62: '>', the other byte order
    return get32(array + _HEAD + 8) != rank or get32(array + _HEAD + 48) & 0x101 != 0x101


def _unpacking(loop: Callable[..., Any], source: Source) -> Callable[..., int]:
    """The loop as a function of addresses and numbers."""
    space: dict[str, Any] = {"loop": numba.njit(**OPTIONS)(loop), "other": _other, "get64": get64}
    space |= {"pointer": pointer, "carray": numba.carray, "int64": np.int64}
    checks, values = [], []
    for i, (dtype, rank) in enumerate(source.arguments):
        if rank < 0:
            values.append(f"a{i}")
            continue
        kind = np.dtype(dtype)
        space[f"d{i}"] = kind.type
        sizes = ", ".join(f"get64(get64(a{i} + {_HEAD + 16}) + {8 * d})" for d in range(rank))
        values.append(f"carray(pointer(get64(a{i} + {_HEAD})), ({sizes},), d{i})")
        checks.append(f"    if other(a{i}, {ord(kind.kind)}, {kind.itemsize}, {rank}):\n        return {REFUSED}\n")
    call = f"loop({', '.join(values)})"
    void = source.signature.startswith("void")
    end = f"    {call}\n    return 0\n" if void else f"    return int64({call})\n"
    names = ", ".join(f"a{i}" for i in range(len(source.arguments)))
    exec(f"def entry({names}):\n{''.join(checks)}{end}", space)  # our own text: numbered names only
    return space["entry"]


def on_stack(wanted: Any) -> Any:
    """What a loop calls for memory of its own stack: an array of a compiled.Stack's shape."""
    kind = types.Array(types.float32, len(wanted.shape), "C")

    def typed(typingctx: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            one, number = ir.FloatType(), ir.IntType(64)
            room = cgutils.alloca_once(builder, ir.ArrayType(one, int(np.prod(wanted.shape))))
            builder.store(ir.Constant(room.type.pointee, None), room)
            array = context.make_array(kind)(context, builder)
            strides = [4 * int(np.prod(wanted.shape[i + 1 :])) for i in range(len(wanted.shape))]
            arrayobj.populate_array(
                array,
                builder.bitcast(room, one.as_pointer()),
                [number(n) for n in wanted.shape],
                [number(n) for n in strides],
                number(4),
                meminfo=None,
            )
            return array._getvalue()

        return kind(), generate

    return intrinsic(typed)


# Views of contiguous arrays, which all arrays of machine code are; numba's own is a function of its library.
_RESHAPED = """
define internal i32 @numba_attempt_nocopy_reshape(i64 %nd, ptr %dims, ptr %strides, i64 %newnd, ptr %newdims,
                                                  ptr %newstrides, i64 %itemsize, i32 %fortran) {
begin:
  %outer = load i64, ptr %strides
  %count = load i64, ptr %dims
  %whole = mul i64 %outer, %count
  br label %next
next:
  %left = phi i64 [ %newnd, %begin ], [ %at, %axis ]
  %stride = phi i64 [ %itemsize, %begin ], [ %more, %axis ]
  %over = icmp eq i64 %left, 0
  br i1 %over, label %end, label %axis
axis:
  %at = sub i64 %left, 1
  %into = getelementptr i64, ptr %newstrides, i64 %at
  store i64 %stride, ptr %into
  %from = getelementptr i64, ptr %newdims, i64 %at
  %size = load i64, ptr %from
  %more = mul i64 %stride, %size
  br label %next
end:
  %same = icmp eq i64 %stride, %whole
  %rows = icmp eq i32 %fortran, 0
  %fits = and i1 %same, %rows
  %answer = zext i1 %fits to i32
  ret i32 %answer
}
"""

# ---------------------------------------------------------------------- building


def build(loop: Callable[..., Any], source: Source) -> bytes:
    """The object file of a loop; nothing where it needs numba's runtime."""
    numbers_alone = all(kind.rank < 0 for kind in source.arguments)
    function = loop if numbers_alone else _unpacking(loop, source)
    made: Any = numba.cfunc(types.int64(*[types.int64] * len(source.arguments)), **OPTIONS)(function)
    text = _alone(str(made._library._final_module), made._wrapper_name)
    return target_machine().emit_object(llvm.parse_assembly(text)) if text else b""


def _alone(text: str, entry: str) -> str:
    """The module without anything that only numba's runtime has; '' where it needs that."""
    missing = {m["name"] for m in _OUTSIDE.finditer(text)}
    if any(not (name in (*_LIBC, _RESHAPE) or name.startswith("llvm.") or _ERRORS.match(name)) for name in missing):
        return ""

    def ended(found: re.Match[str]) -> str:
        if found["name"] == _RESHAPE:
            return _RESHAPED
        if not _ERRORS.match(found["name"]):
            return found[0]
        head = f"define internal {found['type']} @{found['name']}({found['args']})"
        return f"{head} {{\ncall void @abort()\nunreachable\n}}"

    text = _OUTSIDE.sub(ended, text)
    text = re.sub(r"^(@Py\w+ =) external global i8", r"\1 internal global i8 0", text, flags=re.MULTILINE)
    text = re.sub(rf'@"?{re.escape(entry)}"?(?=[( ,)])', f"@{ENTRY}", text)
    return text if "declare void @abort()" in text else f"{text}\ndeclare void @abort()\n"


def build_and_keep(loop: Callable[..., Any], source: Source) -> bytes:
    code = read(source)
    if code is None:
        code = build(loop, source)
        keep(source, code)
    return code


def main(names: Sequence[str], nice: int, locked: Sequence[str] = ()) -> None:
    """Build what these name (module:attribute), as a child process that is so much nicer than others. locked: those
    whose locks this process was given.

    What another child is at is left to it.
    """
    with contextlib.suppress(OSError):
        os.nice(nice)
    for name in locked:
        _named(name).build_ahead()
    rest = [name for name in names if name not in locked]
    others = [name for name in rest if not _built_alone(name, wait=False)]
    for name in others:
        _built_alone(name, wait=True)


def _named(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def _built_alone(name: str, wait: bool) -> bool:
    """Build it, or find it built; False where that is another child's work just now and nobody waits."""
    found = _named(name)
    with held(name, wait) as mine:
        if mine:
            found.build_ahead()
    return mine


@contextlib.contextmanager
def held(name: str, wait: bool) -> Iterator[bool]:
    """Whether this process alone may build `name` meanwhile; True too where nothing is kept for others."""
    fd = lock(name, wait)
    try:
        yield fd is not None
    finally:
        if fd is not None and fd >= 0:
            os.close(fd)
