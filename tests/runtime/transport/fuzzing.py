"""Frames as a damaged or hostile peer would send them, reproducible by a number."""

from __future__ import annotations

import json
import random
import struct
from typing import Any

import numpy as np

from sparkflow_runtime.wire import dtypes, frames
from sparkflow_runtime.wire.sessions import METHODS
from sparkflow_runtime.wire.tasks import COLLECTIVE, TRAFFIC

_TYPES = [t.np for t in dtypes.ALL.values() if not t.np.hasobject]
_EDGES = [0, 1, 2, 7, 8, 63, 64, 0x7F, 0x80, 0xFF, 1 << 15, 1 << 16, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 40]
_FIELDS = {"<B": (4, 5), "<H": (6,), "<Q": (8, 28), "<I": (16, 20, 24)}  # where the header's fields begin, by format

_METHODS = [*range(1, 10), *METHODS, TRAFFIC]
_FIELDS_OF_RINGS = (
    "group", "size", "nonce", "left", "generation", "members", "error", "done", "who", "why", "settled", "instance",
    "use", "joined", "begun",
)  # fmt: skip


def tensor(rng: random.Random) -> Any:
    shape = tuple(rng.choice([0, 1, 2, 3, 17]) for _ in range(rng.randrange(4)))
    if rng.random() < 0.2:
        return np.array([rng.randbytes(rng.randrange(20)) for _ in range(rng.randrange(5))], object)
    return np.zeros(shape, rng.choice(_TYPES))


def good_frame(rng: random.Random, method: int | None = None) -> bytes:
    """Of any kind that carries a message, with an unknown method as likely as a known one."""
    kind = rng.choice([frames.REQUEST, frames.REPLY, frames.ERROR, frames.PUSH, frames.HEARTBEAT, frames.FORGET])
    number = rng.choice([*_METHODS, COLLECTIVE, rng.randrange(1 << 16)]) if method is None else method
    meta = rng.choice([b"", b"{}", b"[]", rng.randbytes(8), rng.randbytes(16), rng.randbytes(rng.randrange(200))])
    if number == COLLECTIVE and rng.random() < 0.9:
        meta = of_a_ring(rng)
    tensors = [tensor(rng) for _ in range(rng.choice([0, 0, 1, 1, 2, 5]))]
    return b"".join(bytes(b) for b in frames.encode(kind, number, rng.randrange(1 << 20), meta, tensors))


def of_a_ring(rng: random.Random) -> bytes:
    """What members of a group tell each other: every field may lack, or be of another kind."""
    if rng.random() < 0.2:
        return bytes([0]) + rng.randbytes(rng.choice([20, 44, 45, 46, 80]))
    odd = [
        -1,
        1 << 70,
        0.5,
        None,
        True,
        "",
        "/job:rogue/replica:0/task:0",
        "/job:ps/replica:0/task:0",
        [],
        [[1, 2]],
        {},
    ]
    fields = {n: rng.randrange(4) if rng.random() < 0.6 else rng.choice(odd) for n in _FIELDS_OF_RINGS}
    return bytes([rng.randrange(9)]) + json.dumps({n: v for n, v in fields.items() if rng.random() < 0.85}).encode()


def damaged(raw: bytes, rng: random.Random) -> bytes:
    """The frame with bytes changed, fields of its header set to odd values, cut short, or with bytes too many."""
    out = bytearray(raw)
    for _ in range(rng.choice([1, 1, 2, 4])):
        how = rng.randrange(6)
        if how == 0:
            out[rng.randrange(len(out))] = rng.randrange(256)
        elif how == 1:
            form, places = rng.choice(list(_FIELDS.items()))
            at, value = rng.choice(places), rng.choice(_EDGES) + rng.choice([0, 0, 1])
            out[at : at + struct.calcsize(form)] = struct.pack(form, value % (1 << 8 * struct.calcsize(form)))
        elif how == 2 and len(out) > frames.HEADER_BYTES + 8:  # the table, or what is taken for it
            at = rng.randrange(frames.HEADER_BYTES, len(out) - 7)
            out[at : at + 8] = struct.pack("<Q", rng.choice(_EDGES))
        elif how == 3:
            del out[rng.randrange(frames.HEADER_BYTES, len(out) + 1) :]
        elif how == 4:
            out += rng.randbytes(rng.randrange(1, 64))
        else:
            out[5] |= frames.ELSEWHERE
    return bytes(out)


def any_frame(rng: random.Random) -> bytes:
    return good_frame(rng) if rng.random() < 0.3 else bad_frame(rng)


def bad_frame(rng: random.Random) -> bytes:
    return rng.randbytes(rng.randrange(1, 200)) if rng.random() < 0.1 else damaged(good_frame(rng), rng)


def batch(rng: random.Random) -> list[bytes]:
    """Good frames, and a bad one, with which the connection ends as a rule."""
    return [*(good_frame(rng) for _ in range(rng.randrange(4))), bad_frame(rng)]
