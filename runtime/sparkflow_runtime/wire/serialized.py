"""Messages as bytes, of which protobuf writes less than 2 GiB: what is larger is refused with what makes it so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.protobuf.message import DecodeError, EncodeError

from sparkflow_runtime.wire.errors import InvalidArgumentError

MAX_BYTES = (1 << 31) - 1
INSTEAD = "Hold large values in variables, which may have any size: feed what initializes them, or restore it"


def serialized(message: Any, deterministic: bool = False) -> bytes:
    """Raises InvalidArgumentError where the message is too large."""
    with within_limits(message):
        return message.SerializeToString(deterministic=deterministic)


@contextmanager
def within_limits(message: Any) -> Iterator[None]:
    """What copies or writes a message. Raises InvalidArgumentError where it is too large."""
    try:
        yield
    except (EncodeError, DecodeError):  # protobuf writes and reads what it copies
        kind, name, size = type(message).DESCRIPTOR.name, *_largest(message)
        held = f": its constants are too large, the largest is {name!r} of {size} bytes" if size else ""
        raise InvalidArgumentError(f"{kind} cannot be larger than 2 GiB{held}. {INSTEAD}") from None


def _largest(message: Any) -> tuple[str, int]:
    """The name and the bytes of the largest constant."""
    metas = getattr(message, "meta_graphs", (message,))
    nodes = (node for meta in metas for node in getattr(meta, "graph_def", meta).node)
    sizes = [(node.name, len(node.attr["value"].tensor.tensor_content)) for node in nodes if node.op == "Const"]
    return max(sizes, key=lambda one: one[1], default=("", 0))
