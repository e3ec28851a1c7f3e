"""What a client says to the master of its session, which is a Server in another process: methods and their metas.

A client has one channel a session. `OPEN` comes first; the end of the channel is the end of the session.
A signature (feeds, fetches, targets) is sent once, with its first step, and has a number from then on, so that a step
is one small message there and one back.
"""

from __future__ import annotations

import json
import secrets
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

from sparkflow_runtime.wire.errors import DataLossError

OPEN, EXTEND, STEP, CANCEL, BEGIN_PARTIAL, PARTIAL, RESET_ALL = range(32, 39)
METHODS = range(OPEN, RESET_ALL + 1)
CALL = RESET_ALL + 1  # the other way: of a Python function that the client has
NAMES = dict(zip(METHODS, ("open", "extend", "step", "cancel", "begin partial", "partial", "reset all")))
NAMES[CALL] = "call a function"
MAX_SIGNATURES = 4096  # that a server remembers for a session; the least recently used are forgotten
AGAIN = b"A"  # the meta of an extension some of whose nodes may be there already
UNKNOWN_SIGNATURE = b"U"  # the meta of a reply: send the step again, and its signature with it

_STEP_HEAD = struct.Struct("<QQI")  # number of the signature, of the step, bytes of RunOptions; then these, the names
_CANCEL = struct.Struct("<Q")


_ISOLATED = "-isolated"  # ends the names of sessions whose variables are their own


def new_session(isolated: bool) -> str:
    """A name for a session, nobody else's. isolated: it shares no resource with others, as ConfigProto has it."""
    return secrets.token_hex(8) + _ISOLATED * isolated


def is_isolated(session: str) -> bool:
    return session.endswith(_ISOLATED)


class Signature(NamedTuple):
    """feeds and fetches are 'name:port', targets 'name'."""

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    targets: tuple[str, ...]

    def encode(self) -> bytes:
        return json.dumps(self).encode()

    @staticmethod
    def decode(data: bytes) -> Signature:
        """Raises DataLossError where `data` is none."""
        try:
            feeds, fetches, targets = (_names(part) for part in json.loads(data))
        except (ValueError, TypeError) as error:
            raise DataLossError(f"No signature can be read from {data[:80]!r}: {error}") from None
        return Signature(feeds, fetches, targets)


def _names(part: Any) -> tuple[str, ...]:
    if not isinstance(part, list) or not all(isinstance(name, str) for name in part):
        raise TypeError(f"expected a list of names, got {part!r:.80}")
    return tuple(part)


class StepRequest(NamedTuple):
    """One run. signature: its encoded names, b"" where the server was told before; options: RunOptions, serialized."""

    number: int
    step: int
    options: bytes = b""
    signature: bytes = b""

    def encode(self) -> bytes:
        head = _STEP_HEAD.pack(self.number, self.step, len(self.options))
        return head + self.options + self.signature if self.options or self.signature else head

    @staticmethod
    def decode(meta: bytes) -> StepRequest:
        if len(meta) < _STEP_HEAD.size:
            raise DataLossError(f"A step's meta has {len(meta)} bytes, at least {_STEP_HEAD.size} were expected")
        number, step, size = _STEP_HEAD.unpack_from(meta)
        options_end = _STEP_HEAD.size + size
        return StepRequest(number, step, meta[_STEP_HEAD.size : options_end], meta[options_end:])


def encode_cancel(step: int) -> bytes:
    return _CANCEL.pack(step)


def decode_cancel(meta: bytes) -> int:
    if len(meta) != _CANCEL.size:
        raise DataLossError(f"A cancellation's meta has {len(meta)} bytes, {_CANCEL.size} were expected")
    return int(_CANCEL.unpack(meta)[0])


def new_handle() -> str:
    """Of a partial run: a number in 16 digits, by which it is cancelled like another step."""
    return secrets.token_hex(8)


def number_of(handle: str) -> int:
    return int(handle, 16)


def handle_of(number: int) -> str:
    return f"{number:016x}"


class PartialRequest(NamedTuple):
    """More of a partial run: the tensors of the message are the values of `feeds`."""

    handle: str
    signature: Signature

    def encode(self) -> bytes:
        return json.dumps([self.handle, *self.signature]).encode()

    @staticmethod
    def decode(meta: bytes) -> PartialRequest:
        try:
            handle, *names = json.loads(meta)
        except (ValueError, TypeError) as error:
            raise DataLossError(f"No partial run can be read from {meta[:80]!r}: {error}") from None
        return PartialRequest(str(handle), Signature.decode(json.dumps(names).encode()))


class FunctionCall(NamedTuple):
    """The call of a node's Python function; the tensors of the message are its inputs. wanted: the names of the types
    of its results. state: see wire/py_functions."""

    node: str
    token: str
    wanted: tuple[str, ...]
    state: str | None

    def encode(self) -> bytes:
        return json.dumps(self).encode()

    @staticmethod
    def decode(meta: bytes) -> FunctionCall:
        try:
            node, token, wanted, state = json.loads(meta)
            return FunctionCall(str(node), str(token), _names(wanted), state if state is None else str(state))
        except (ValueError, TypeError) as error:
            raise DataLossError(f"No call of a function can be read from {meta[:80]!r}: {error}") from None


def encode_devices(devices: Sequence[Sequence[Any]]) -> bytes:
    """Of (name, type, memory limit in bytes, incarnation) rows."""
    return json.dumps([list(d) for d in devices]).encode()


def decode_devices(meta: bytes) -> list[tuple[str, str, int, int]]:
    return [(str(name), str(kind), int(limit), int(number)) for name, kind, limit, number in json.loads(meta)]
