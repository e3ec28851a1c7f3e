"""How a library's own collections travel in a MetaGraphDef: messages that it says how to make and to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class CollectionProto(NamedTuple):
    """Each may be None: then the collection is written, or read, as others are."""

    proto_type: Any
    to_proto: Callable[..., Any] | None
    from_proto: Callable[..., Any] | None


_NOTHING = CollectionProto(None, None, None)
_known: dict[str, CollectionProto] = {}


def register_proto_function(
    collection_name: str,
    proto_type: Any = None,
    to_proto: Callable[..., Any] | None = None,
    from_proto: Callable[..., Any] | None = None,
) -> None:
    """Let a collection's values be written as messages of proto_type: to_proto(value, export_scope=...) makes one, or
    None for a value that stays behind, and from_proto(message, import_scope=...) the value again.

    Raises TypeError where to_proto or from_proto cannot be called, KeyError where the collection has been told of.
    """
    for function in (to_proto, from_proto):
        if function is not None and not callable(function):
            raise TypeError(f"register_proto_function: to_proto and from_proto must be callable, got {function!r}")
    if collection_name in _known:
        raise KeyError(f"register_proto_function: collection {collection_name!r} has been registered before")
    _known[collection_name] = CollectionProto(proto_type, to_proto, from_proto)


def proto_of(collection_name: Any) -> CollectionProto:
    return _known.get(collection_name, _NOTHING)


def get_collection_proto_type(collection_name: str) -> Any:
    return proto_of(collection_name).proto_type


def get_to_proto_function(collection_name: str) -> Callable[..., Any] | None:
    return proto_of(collection_name).to_proto


def get_from_proto_function(collection_name: str) -> Callable[..., Any] | None:
    return proto_of(collection_name).from_proto
