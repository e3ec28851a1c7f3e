"""SequenceExample messages as columns, one message at a time by protobuf's own classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.kernels.registry import Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.example_proto import SequenceExample
from sparkflow_runtime.wire.tensor_proto import as_bytes

_LISTS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


def _texts(values: Any) -> list[str]:
    return [as_bytes(np.asarray(v, object).item()).decode() for v in values]


def _values(feature: Any, kind: Any, what: str) -> np.ndarray:
    found, wanted = feature.WhichOneof("kind"), _LISTS[kind.name]
    if found not in (None, wanted):
        raise InvalidArgumentError(f"{what}: Data types don't match. Expected type: {kind.name} but it is a {found}")
    out = np.empty(len(getattr(feature, wanted).value), kind.np)
    out[:] = list(getattr(feature, wanted).value)
    return out


def _shaped(values: np.ndarray, dims: tuple[int, ...], what: str) -> np.ndarray:
    if values.size != np.prod(dims, dtype=np.int64):
        raise InvalidArgumentError(
            f"{what}: Number of values != expected. values size: {values.size} but output shape: {list(dims)}"
        )
    return values.reshape(dims)


def _sparse(lists: list[np.ndarray], kind: Any, nested: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    lengths = np.array([len(v) for v in lists], np.int64)
    values = np.concatenate(lists) if lists else np.empty(0, kind.np)
    within = np.concatenate([np.arange(n) for n in lengths]) if lists else np.empty(0, np.int64)
    most = lengths.max(initial=0)
    if not nested:
        return within[:, None].astype(np.int64), values, np.array([most], np.int64)
    rows = np.repeat(np.arange(len(lists)), lengths)
    return np.stack([rows, within.astype(np.int64)], 1), values, np.array([len(lists), most], np.int64)


@bound("ParseSingleSequenceExample", multi=True, devices=("CPU",))
def _parse(node: Node) -> Callable[..., Any]:
    a = node.attrs
    counts = [len(a["context_sparse_types"]), len(a["Tcontext_dense"]), len(a["feature_list_sparse_types"]),
              len(a["feature_list_dense_types"])]  # fmt: skip
    context_dims = [s.dims for s in a["context_dense_shapes"]]
    list_dims = [s.dims for s in a["feature_list_dense_shapes"]]

    def run(serialized: Any, may_miss: Any, *rest: Any) -> list[Any]:
        given, parts = list(rest), []
        for count in counts:
            parts.append(_texts(given[:count]))
            given = given[count:]
        defaults, name = given[: counts[1]], as_bytes(np.asarray(given[-1], object).item()).decode()
        who = f"Name: {name or '<unknown>'}"
        try:
            message = SequenceExample.FromString(as_bytes(np.asarray(serialized, object).item()))
        except DecodeError:
            raise InvalidArgumentError(f"{who}: Could not parse SequenceExample input") from None
        context, lists = message.context.feature, message.feature_lists.feature_list
        sparse = [_context_sparse(context, k, t, who) for k, t in zip(parts[0], a["context_sparse_types"])]
        dense = [
            _context_dense(context, k, t, d, default, who)
            for k, t, d, default in zip(parts[1], a["Tcontext_dense"], context_dims, defaults)
        ]
        list_sparse = [
            _sparse(_listed(lists, k, t, f"{who}, Feature list: {k}"), t, True)
            for k, t in zip(parts[2], a["feature_list_sparse_types"])
        ]
        empty = {as_bytes(k).decode() for k in np.asarray(may_miss, object).ravel()}
        list_dense = [
            _list_dense(lists, k, t, d, k in empty, who)
            for k, t, d in zip(parts[3], a["feature_list_dense_types"], list_dims)
        ]
        flat = [[s[i] for s in group] for group in (sparse, list_sparse) for i in range(3)]
        return [*flat[0], *flat[1], *flat[2], *dense, *flat[3], *flat[4], *flat[5], *list_dense]

    return run


def _listed(lists: Any, key: str, kind: Any, what: str) -> list[np.ndarray]:
    return [_values(f, kind, what) for f in lists[key].feature] if key in lists else []


def _context_sparse(context: Any, key: str, kind: Any, who: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    found = [_values(context[key], kind, f"{who}, Context feature: {key}")] if key in context else []
    return _sparse(found, kind, False)


def _context_dense(context: Any, key: str, kind: Any, dims: Any, default: Any, who: str) -> np.ndarray:
    if key in context:
        return _shaped(_values(context[key], kind, f"{who}, Context feature: {key}"), dims, f"{who}, Key: {key}")
    if np.size(default) == 0 and np.prod(dims, dtype=np.int64) != 0:
        raise InvalidArgumentError(f"{who}, Context feature '{key}' is required but could not be found.")
    return np.asarray(default).reshape(dims)


def _list_dense(lists: Any, key: str, kind: Any, dims: Any, may_miss: bool, who: str) -> np.ndarray:
    if key not in lists:
        if not may_miss:
            raise InvalidArgumentError(
                f"{who}, Feature list '{key}' is required but could not be found.  Did you mean to include it in "
                "feature_list_dense_missing_assumed_empty or feature_list_dense_defaults?"
            )
        return np.empty((0, *dims), kind.np)
    what = f"{who}, Feature list: {key}"
    rows = [_shaped(_values(f, kind, what), dims, f"{what}, Index: {i}") for i, f in enumerate(lists[key].feature)]
    return np.stack(rows) if rows else np.empty((0, *dims), kind.np)
