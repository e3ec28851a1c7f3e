"""Several bundles of a step in one message: their numbers and how many tensors each has, then the tensors of all."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.wire.errors import InvalidArgumentError

Bundle = tuple[int, list[Any]]  # its number, its tensors
_ENTRY = struct.Struct("<QI")


def encode_table(bundles: Sequence[Bundle]) -> bytes:
    return b"".join(_ENTRY.pack(number, len(tensors)) for number, tensors in bundles)


def tensors_of(bundles: Sequence[Bundle]) -> list[Any]:
    return [t for _, tensors in bundles for t in tensors]


def copies(tensors: Sequence[Any]) -> list[Any]:
    """For what is sent when the memory of these may have other values already."""
    return [np.array(tensor) for tensor in tensors]


def decode_table(table: bytes, tensors: Sequence[Any]) -> tuple[list[Any], list[Bundle]]:
    """(tensors that belong to none, bundles): those of the bundles are the last ones. Raises InvalidArgumentError
    where there are fewer than the table says."""
    if len(table) % _ENTRY.size:
        raise InvalidArgumentError(f"A table of bundles of {len(table)} bytes is no multiple of {_ENTRY.size}")
    entries = list(_ENTRY.iter_unpack(table))
    at = len(tensors) - sum(count for _, count in entries)
    if at < 0:
        raise InvalidArgumentError(f"{len(entries)} bundles of {len(tensors) - at} tensors, and {len(tensors)} came")
    before, bundles = list(tensors[:at]), []
    for number, count in entries:
        bundles.append((number, list(tensors[at : at + count])))
        at += count
    return before, bundles
