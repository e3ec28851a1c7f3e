"""What goes with a chunk to the next member of a ring: where it belongs, and what its sender takes the collective for.

Members whose programs differ would otherwise add up, or put together, what does not belong together."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparkflow_runtime.resources.rings import Chunk, Send
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError, UnavailableError

DATA = 0  # the first byte of such a message
SHORT_BYTES = 1 << 20  # of data that are sent, or added up, by the thread that brings them
SEND_S = 0.2  # a ring waits so long for who does not read, and may be stopped: its thread has other things to do
_FIXED = struct.Struct("<BQiiQBIIQ")  # DATA, generation, group key, instance key, use, and the four of Chunk

_log = logging.getLogger(__name__)
Push = Callable[[str, bytes, Sequence[Any]], None]  # (task, meta, tensors)


class Header(NamedTuple):
    """use: how many there were of that instance before. what: see Ring."""

    generation: int
    group: int
    instance: int
    use: int
    chunk: Chunk
    what: str

    def encode(self) -> bytes:
        return _FIXED.pack(DATA, *self[:4], *self.chunk) + self.what.encode()

    @staticmethod
    def decode(meta: bytes, tensors: Sequence[Any]) -> Header:
        """Of a message. Raises InvalidArgumentError where it is none of these, or has other than one flat tensor."""
        if len(meta) < _FIXED.size or len(tensors) != 1 or tensors[0].ndim != 1:
            raise InvalidArgumentError(f"Collective message of {len(meta)} bytes and {len(tensors)} tensors")
        return Header.read(meta)

    @staticmethod
    def read(meta: bytes) -> Header:
        """As `encode` gave it."""
        _, generation, group, instance, use, *chunk = _FIXED.unpack_from(meta)
        what = bytes(meta[_FIXED.size :]).decode(errors="replace")
        return Header(generation, group, instance, use, Chunk(*chunk), what)

    def check(self, here: str) -> None:
        """Raises InvalidArgumentError where the sender takes the collective for another."""
        if self.what != here:
            raise InvalidArgumentError(f"The members' programs differ: {self.what} there, {here} here")

    def unexpected(self, members: Sequence[str]) -> InvalidArgumentError:
        """What came when this member was done with it. The session hears of it with its next collective, if it has one,
        so the log does now."""
        sender = members[self.chunk.segment] if self.chunk.segment < len(members) else "another member"
        error = InvalidArgumentError(
            f"group {self.group}, instance {self.instance}: {self.what} came from {sender}, and all was here already. "
            "The members' programs differ: one of them alone may be the source of a broadcast"
        )
        _log.error("Collective of %s", error.message)
        return error


def to_neighbour(push: Push | None, to: str, place: tuple[int, int, int, int], what: Callable[[], str]) -> Send:
    """What sends chunks of one ring to the next member. place: the first four of Header. what: the last."""

    def send(chunk: Chunk, data: np.ndarray) -> None:
        try:
            push(to, Header(*place, chunk, what()).encode(), [data])  # type: ignore[misc]
        except UnavailableError as error:
            raise lost(to, error) from None

    return send


def is_short(tensors: Sequence[Any]) -> bool:
    """Of a message, whether it takes less time than to have another thread see to it."""
    return sum([tensor.nbytes for tensor in tensors]) <= SHORT_BYTES


def lost(task: str, error: OpError) -> UnavailableError:
    """What a ring ends with where a member cannot be sent to."""
    return UnavailableError(f"lost {task}: {error.message}")
