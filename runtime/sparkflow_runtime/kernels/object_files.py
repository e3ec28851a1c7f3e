"""Object files made ready to run by ourselves, where they are of the one kind that LLVM makes for x86-64 on Linux.

LLVM can do that too, but importing it costs 35 ms and 20 MiB, and each file 1.4 ms; a process of a training loads
twenty. Code of the large model refers to addresses in full (R_X86_64_64), and ours to nothing outside but a few
functions of libc. Any other file is left to LLVM (machine_code.py).

Source: System V ABI, AMD64 supplement, object files and relocation.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

_IDENT = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian, version 1
_HEADER = struct.Struct("<16xHHIQQQIHHHHHH")
_SECTION, _SYMBOL, _RELOCATION = struct.Struct("<IIQQQQIIQQ"), struct.Struct("<IBBHQQ"), struct.Struct("<QQq")
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _RELOCATIONS, _ZEROS = 1, 2, 4, 8  # types of sections; what unwinding needs has another
_WRITTEN, _IN_MEMORY = 1, 2  # flags of sections
_NOWHERE, _ABSOLUTE, _COMMON = 0, 0xFFF1, 0xFFF2  # instead of a symbol's section
_THREAD_LOCAL, _INDIRECT = 6, 10  # types of symbols
_ADDRESS = 1  # R_X86_64_64: the symbol's address and an addend, in 8 bytes
_OUTSIDE = ("abort", "memcpy", "memmove", "memset", "sqrt", "sqrtf")

_held: list[mmap.mmap] = []  # what was linked, so that it stays


class _Section(NamedTuple):
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    def rows(self, code: bytes, form: struct.Struct) -> Any:
        return form.iter_unpack(code[self.offset : self.offset + self.size])


class _Other(Exception):
    """A file of another kind than we link."""


def link(code: bytes, symbol: str) -> int | None:
    """The address of a symbol of an object file that lies ready to run in memory of its own, for as long as the process
    lives; None where the file is of another kind. Raises OSError where the system lets no memory be run."""
    try:
        return _link(code, symbol.encode())
    except (_Other, struct.error):
        return None


def _link(code: bytes, symbol: str | bytes) -> int:
    sections = _sections(code)
    placed, written_at, size = _lay_out(sections)
    table = next((s for s in sections if s.type == _SYMBOLS), None)
    if table is None:
        raise _Other
    symbols = list(table.rows(code, _SYMBOL))
    common, size = _lay_out_common(symbols, size)
    memory = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    names = sections[table.link].offset
    values = [_address(code, names, s, base, placed, common.get(i, 0)) for i, s in enumerate(symbols)]
    for i, at in placed.items():
        if sections[i].type == _PROGRAM:
            memory[at : at + sections[i].size] = code[sections[i].offset : sections[i].offset + sections[i].size]
    for section in sections:
        if section.type == _RELOCATIONS and section.info in placed:
            for offset, info, addend in section.rows(code, _RELOCATION):
                value = values[info >> 32]
                if info & 0xFFFFFFFF != _ADDRESS or value is None:
                    raise _Other
                struct.pack_into("<Q", memory, placed[section.info] + offset, value + addend)
    if written_at:
        _protect(base, written_at)
    found = next((v for s, v in zip(symbols, values) if v and _name(code, names, s[0]) == symbol), None)
    if found is None:
        raise _Other
    _held.append(memory)
    return found


def _sections(code: bytes) -> list[_Section]:
    if code[: len(_IDENT)] != _IDENT:
        raise _Other
    kind, machine, _, _, _, start, _, _, _, _, entry_size, count, _ = _HEADER.unpack_from(code)
    if (kind, machine, entry_size) != (_RELOCATABLE, _X86_64, _SECTION.size):
        raise _Other
    rows = _SECTION.iter_unpack(code[start : start + count * entry_size])
    return [_Section(*(row[i] for i in (1, 2, 4, 5, 6, 7, 8))) for row in rows]


def _lay_out(sections: list[_Section]) -> tuple[dict[int, int], int, int]:
    """Where each section begins that is in memory, where those begin that are written, on a page, and where all end."""
    placed: dict[int, int] = {}
    at = written_at = 0
    for written in (0, _WRITTEN):
        at = written_at = _up(at, mmap.PAGESIZE)
        for i, section in enumerate(sections):
            if section.type in (_PROGRAM, _ZEROS) and section.flags & (_WRITTEN | _IN_MEMORY) == written | _IN_MEMORY:
                placed[i] = at = _up(at, section.align)
                at += section.size
    return placed, written_at, at


def _lay_out_common(symbols: list[Any], at: int) -> tuple[dict[int, int], int]:
    """Where each symbol is that is zeros without a section, and where they end."""
    placed: dict[int, int] = {}
    for i, (_, _, _, section, align, size) in enumerate(symbols):
        if section == _COMMON:
            placed[i] = at = _up(at, align)
            at += size
    return placed, at


def _up(at: int, align: int) -> int:
    return -(-at // max(align, 1)) * max(align, 1)


def _address(code: bytes, names: int, symbol: Any, base: int, placed: Mapping[int, int], common: int) -> int | None:
    """Of a symbol; None of one that we do not know, which is no error as long as nothing refers to it."""
    name, info, _, section, value, _ = symbol
    if info & 15 in (_THREAD_LOCAL, _INDIRECT):
        return None
    if section == _NOWHERE:
        return _outside().get(_name(code, names, name))
    if section == _ABSOLUTE:
        return int(value)
    if section == _COMMON:
        return base + common
    return base + placed[section] + value if section in placed else None


def _name(code: bytes, names: int, at: int) -> bytes:
    return code[names + at : code.index(b"\0", names + at)]


@cache
def _outside() -> dict[bytes, int]:
    """Functions of this process's libraries that code may call."""
    here = ctypes.CDLL(None)
    found = {name: getattr(here, name, None) for name in _OUTSIDE}
    return {name.encode(): ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in found.items() if f is not None}


def _protect(address: int, size: int) -> None:
    """Memory from now on to be read and run, and not written."""
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if protect(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        error = ctypes.get_errno()
        raise OSError(error, f"mprotect of {size} bytes to be run: {os.strerror(error)}")
