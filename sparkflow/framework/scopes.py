"""The scopes and collections of the default graph, as module functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from sparkflow.framework.graph import get_default_graph


@contextmanager
def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Iterator[str]:
    """Prefix the names of ops made inside; `default_name` where `name` is None. values: fixes nothing, kept for TF1
    callers."""
    with get_default_graph().name_scope(default_name if name is None else name) as scope:
        yield scope


def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    return get_default_graph().device(device_name_or_function)


def control_dependencies(control_inputs: Any) -> AbstractContextManager[None]:
    return get_default_graph().control_dependencies(control_inputs)


def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    return get_default_graph().colocate_with(op, ignore_existing)


def container(container_name: str) -> AbstractContextManager[str]:
    return get_default_graph().container(container_name)


def add_to_collection(name: str, value: Any) -> None:
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names: Any, value: Any) -> None:
    get_default_graph().add_to_collections(names, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key: str) -> list[Any]:
    return get_default_graph().get_collection_ref(key)
