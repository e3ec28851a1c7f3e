"""Machine code of loops, kept on disk and loaded without numba, nor LLVM where we can do it (object_files.py).

Importing numba takes half a second in which it holds the GIL, and a training step that waits for the GIL at every
kernel is ten times slower meanwhile. So what numba compiled (machine_build.py, in a child process) is kept as an object
file, which later processes load in milliseconds without numba.

A loop's machine code is a C function of int64 that returns one: arrays come as the addresses of their ndarray objects,
whose layout is that of numpy's public headers, and numbers as they are. It refuses arrays of another type, rank or
layout than its signature says.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.kernels.object_files import link

ENTRY = "sparkflow_entry"
REFUSED = -(1 << 63)
_FOLDER = "NUMBA_CACHE_DIR"
_OF_A_MODEL = (  # lines of /proc/cpuinfo, of x86 and of ARM
    *("vendor_id", "cpu family", "model", "flags"),
    *("CPU implementer", "CPU architecture", "CPU variant", "CPU part", "Features"),
)
_OURS = r"sparkflow_runtime\.(?:kernels|records)\.\w+"
_REGISTRY = r"sparkflow_runtime\.kernels\.compiled"  # which every loop is listed with, and none is made of
_NEIGHBOUR = re.compile(rf"^ *from (?!{_REGISTRY} )({_OURS}) import", re.MULTILINE)


class Argument(NamedTuple):
    dtype: str
    rank: int  # -1: a number


class Source(NamedTuple):
    """A function `name` of a module, to be compiled for one signature."""

    module: str
    name: str
    signature: str

    @property
    def arguments(self) -> list[Argument]:
        """Raises ValueError for an argument that is neither a contiguous array nor an int64."""
        inside = self.signature.partition("(")[2].rpartition(")")[0]
        return [_argument(text) for text in re.findall(r"Array\([^)]*\)|\w+\[[^\]]*\]|\w+", inside)]

    @property
    def fits(self) -> bool:
        try:
            return bool(self.arguments)
        except ValueError:
            return False


def _argument(text: str) -> Argument:
    if found := re.fullmatch(r"Array\((\w+), (\d+), 'C'(?:, readonly=True)?\)", text):
        return Argument(found[1], int(found[2]))
    if found := re.fullmatch(r"(\w+)\[((?::, ?|:,)*)::1\]", text):
        return Argument(found[1], found[2].count(":") + 1)
    if text == "int64":
        return Argument(text, -1)
    raise ValueError(f"{text!r} is no argument of machine code")


def is_ours(module: str) -> bool:
    """Whether machine code of that module is kept on disk."""
    return re.fullmatch(_OURS, module) is not None


# ---------------------------------------------------------------------- on disk


def read(source: Source) -> bytes | None:
    """An object file; nothing (b"") where the loop needs numba's runtime; None where none was kept."""
    name = _name(source)
    for folder in _folders(os.environ.get(_FOLDER, "")):
        try:
            return (folder / name).read_bytes()
        except OSError:
            continue
    return None


def keep(source: Source, code: bytes) -> bool:
    """Whether it was kept for other processes."""
    folder = folder_to_keep_in()
    if folder is None:
        return False
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / _name(source)
        unfinished = path.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(code)
        unfinished.replace(path)
    except OSError:
        return False
    return True


def lock_file(name: str) -> Path | None:
    """The file whose lock the one that builds `name` has; None where nothing is kept, or nothing can be written."""
    folder = folder_to_keep_in()
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{hashlib.sha256(name.encode()).hexdigest()[:24]}.lock"
        path.touch()
    except OSError:
        return None
    return path


def lock(name: str, wait: bool = False) -> int | None:
    """An open file by which the loop is locked, -1 where that cannot be; None where another has locked it and nobody
    waits."""
    path = lock_file(name)
    if path is None:
        return -1
    try:
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    except OSError:
        return -1
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except OSError:  # a file system without locks
        os.close(fd)
        return -1
    return fd


def folder_to_keep_in() -> Path | None:
    """The first that can be written to; None where there is none."""
    return _writable(os.environ.get(_FOLDER, ""))


def _name(source: Source) -> str:
    key = hashlib.sha256(repr((source, _machine(), _texts(source.module))).encode()).hexdigest()
    return f"{source.module.rpartition('.')[2]}.{source.name}.{key[:24]}.o"


def _folders(wanted: str) -> tuple[Path, ...]:
    """What the user says; or beside the source, where an administrator has left it for all, and the user's cache."""
    if wanted:
        return (Path(wanted),)
    home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "sparkflow"
    return (Path(__file__).parent / "__pycache__", home)


@lru_cache
def _writable(wanted: str) -> Path | None:
    if wanted:
        return Path(wanted)
    for folder in _folders(wanted):
        held = next((f for f in (folder, *folder.parents) if f.exists()), None)
        if held is not None and os.access(held, os.W_OK):
            return folder
    return None


@lru_cache(1)
def _machine() -> tuple[str, ...]:
    """What machine code depends on beside its source."""
    return sys.version, _version_text("numba"), _version_text("llvmlite"), np.__version__, processor()


def _version_text(package: str) -> str:
    """Of a package that is not imported, nor asked of importlib.metadata, which is as dear."""
    spec = find_spec(package)
    told = Path(spec.origin).with_name("_version.py") if spec is not None and spec.origin else None
    return told.read_text() if told is not None and told.exists() else ""


def processor() -> str:
    """Its model and what it can do: as Linux says it of the first one, or LLVM, which takes 35 ms to import."""
    try:
        with open("/proc/cpuinfo", encoding="ascii", errors="replace") as file:
            first = takewhile(str.strip, file)  # an empty line ends it
            told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in first)}
    except OSError:
        told = {}
    if "flags" not in told and "Features" not in told:
        import llvmlite.binding as llvm

        return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return " ".join(f"{name}: {told[name]}" for name in _OF_A_MODEL if name in told)


@lru_cache
def _texts(module: str) -> str:
    """The module's own text and that of the modules of kernels and records it imports from."""
    own = text(module)
    return own + "".join(text(other) for other in sorted(set(_NEIGHBOUR.findall(own))))


def text(module: str) -> str:
    """Of a module, which need not be imported."""
    spec = find_spec(module)
    return Path(spec.origin).read_text() if spec is not None and spec.origin else ""


# ---------------------------------------------------------------------- in memory

_engines: list[Any] = []  # they own the code that LLVM has linked


def load(code: bytes, arguments: int, nogil: bool = True) -> Callable[..., int]:
    """The function in an object file, as one of `arguments` ints. nogil: it releases the GIL."""
    kind = (ctypes.CFUNCTYPE if nogil else ctypes.PYFUNCTYPE)(ctypes.c_int64, *[ctypes.c_int64] * arguments)
    found = link(code, ENTRY) if sys.platform == "linux" else None
    return kind(_linked_by_llvm(code) if found is None else found)


def _linked_by_llvm(code: bytes) -> int:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address(ENTRY))


def address(function: Callable[..., int]) -> int:
    """Where a loaded function begins."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0  # type: ignore[arg-type]


def target_machine() -> Any:
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    target = llvm.Target.from_default_triple()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


def caller(name: str, sources: Sequence[Source], functions: Sequence[Callable[..., int]]) -> Callable[..., int]:
    """One function of the loop's own arguments for all of its signatures, which differ in the types of arrays."""
    kinds = [source.arguments for source in sources]
    telling = _telling(kinds)
    given = [f"id(a{i})" if kind.rank >= 0 else f"int(a{i})" for i, kind in enumerate(kinds[0])]
    names = [f"a{i}" for i in range(len(given))]
    types = ", ".join(f"a{i}.dtype" for i in telling)
    pick = f"held.get({types if len(telling) == 1 else f'({types})'}, refused)" if len(sources) > 1 else "only"
    text = f"""def call({", ".join(names)}):
    out = ({pick})({", ".join(given)})
    if out == {REFUSED}:
        raise TypeError(wrong([{", ".join(names)}]))
    return out"""
    space: dict[str, Any] = {
        "held": {_key(kind, telling): f for kind, f in zip(kinds, functions)},
        "only": functions[0],
        "refused": lambda *_: REFUSED,
        "wrong": lambda args: f"{name} takes {[s.signature for s in sources]}, got {[_shown(a) for a in args]}",
    }
    exec(compile(text, f"<sparkflow loop {name}>", "exec"), space)  # our own text: numbered names only
    return space["call"]


def _telling(kinds: Sequence[Sequence[Argument]]) -> list[int]:
    """The arguments by whose types signatures are told apart: one where that is enough."""
    differ: dict[tuple[Argument, ...], int] = {}
    for i, same in enumerate(zip(*kinds)):
        if len({*same}) > 1:
            differ.setdefault(same, i)
    enough = [[i] for same, i in differ.items() if len({*same}) == len(kinds)]
    return enough[0] if enough else [*differ.values()] or [0]


def _key(kind: Sequence[Argument], telling: Sequence[int]) -> Any:
    types = tuple(np.dtype(kind[i].dtype) for i in telling)
    return types[0] if len(types) == 1 else types


def _shown(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    ready = value.flags.c_contiguous and value.flags.aligned
    return f"{value.dtype}{list(value.shape)}{'' if ready else ' not contiguous'}"
