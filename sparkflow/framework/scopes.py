"""The scopes and collections of the default graph, as module functions."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from sparkflow.framework.graph import get_default_graph


class name_scope:
    """Prefix the names of ops made inside; `default_name` where `name` is None. It may be entered several times.

    values: fixes nothing, kept for TF1 callers.
    """

    def __init__(self, name: str | None, default_name: str | None = None, values: Any = None):
        self._name = default_name if name is None else name
        self._open: list[AbstractContextManager[str]] = []

    @property
    def name(self) -> str | None:
        return self._name

    def __enter__(self) -> str:
        scope = get_default_graph().name_scope(self._name)
        self._open.append(scope)
        return scope.__enter__()

    def __exit__(self, *error: Any) -> bool | None:
        return self._open.pop().__exit__(*error)


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


def snake_case(class_name: str) -> str:
    """The scope that a layer or cell gets from its class: "Time4LSTMCell" is time4lstm_cell, "_Own" private__own."""
    split = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", class_name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", split).lower()
    return f"private{name}" if name.startswith("_") else name  # no scope's name begins with an underscore
