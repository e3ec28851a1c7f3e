"""Examples and lines of text to arrays."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.kernels.strings import number, texts
from sparkflow_runtime.wire.dtypes import DType, string
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.example_proto import Example

_KINDS = {"string": "bytes_list", "float32": "float_list", "int64": "int64_list"}


def _features(raw: bytes, which: str) -> Any:
    try:
        return Example.FromString(raw).features.feature
    except DecodeError:
        raise InvalidArgumentError(f"Could not parse example input, {which}: {raw[:40]!r}") from None


def _values(features: Any, key: str, dtype: DType, which: str) -> Any:
    """None where the example does not have the feature. Raises InvalidArgumentError on another type."""
    if key not in features:
        return None
    kind = features[key].WhichOneof("kind")
    if kind is None:
        return None
    if kind != _KINDS[dtype.name]:
        raise InvalidArgumentError(f"{which}, key: {key}. Data types don't match: expected {dtype.name}, has {kind}")
    found = list(getattr(features[key], kind).value)
    return _array(found, dtype)


def _array(values: Sequence[Any], dtype: DType) -> np.ndarray:
    if dtype is string:
        out = np.empty(len(values), object)
        out[:] = values
        return out
    return np.array(values, dtype.np)


def _dense(features: Any, key: str, dtype: DType, shape: tuple[int, ...], default: Any, which: str) -> Any:
    found = _values(features, key, dtype, which)
    size = int(np.prod(shape))
    if found is None:
        if np.size(default) != size:
            raise InvalidArgumentError(
                f"{which}: feature: {key} (data type: {dtype.name}) is required but could not be found."
            )
        return np.asarray(default, dtype.np).reshape(shape)
    if found.size != size:
        raise InvalidArgumentError(
            f"Key: {key}, {which}. Number of {dtype.name} values != expected. "
            f"Values size: {found.size} but output shape: {list(shape)}"
        )
    return found.reshape(shape)


@bound("ParseSingleExample", multi=True, stateful=False)
def _single(node: Node) -> Function:
    sparse = list(zip(node.attr("sparse_keys") or [], node.attr("sparse_types") or []))
    dense = list(zip(node.attr("dense_keys") or [], node.attr("Tdense") or [], node.attr("dense_shapes") or []))

    def run(serialized: Any, *defaults: Any) -> list[Any]:
        features = _features(texts(serialized).item(), "Name: <unknown>")
        loose = [_values(features, k, t, "Name: <unknown>") for k, t in sparse]
        loose = [_array([], t) if v is None else v for v, (_, t) in zip(loose, sparse)]
        fixed = [_dense(features, k, t, s.dims, d, "Name: <unknown>") for (k, t, s), d in zip(dense, defaults)]
        indices = [np.arange(len(v))[:, None] for v in loose]
        sizes = [np.array([len(v)], np.int64) for v in loose]
        return [*indices, *loose, *sizes, *fixed]

    return run


@bound("ParseExample", multi=True, stateful=False)
def _batch(node: Node) -> Function:
    n, m = node.attr("Nsparse", 0), node.attr("Ndense", 0)
    loose_types, fixed_types = node.attr("sparse_types") or [], node.attr("Tdense") or []
    sizes = [s.dims for s in node.attr("dense_shapes") or []]

    def run(serialized: Any, names: Any, *rest: Any) -> list[Any]:
        keys = [texts(k).item().decode() for k in rest[: n + m]]
        defaults = rest[n + m :]
        rows = [_features(raw, f"Index: {i}") for i, raw in enumerate(texts(serialized).reshape(-1))]
        sparse = [_rows(rows, key, dtype) for key, dtype in zip(keys[:n], loose_types)]
        fixed = []
        for key, dtype, shape, default in zip(keys[n:], fixed_types, sizes, defaults):
            own = [_dense(f, key, dtype, shape, default, f"Index: {i}") for i, f in enumerate(rows)]
            fixed.append(np.stack(own) if own else np.empty((0, *shape), dtype.np))
        return [*(s[0] for s in sparse), *(s[1] for s in sparse), *(s[2] for s in sparse), *fixed]

    return run


def _rows(rows: list[Any], key: str, dtype: DType) -> tuple[Any, Any, Any]:
    """(indices, values, shape) of a feature of any length."""
    found = [_values(f, key, dtype, f"Index: {i}") for i, f in enumerate(rows)]
    found = [_array([], dtype) if v is None else v for v in found]
    at = [(i, j) for i, v in enumerate(found) for j in range(len(v))]
    values = np.concatenate(found) if found else _array([], dtype)
    width = max((len(v) for v in found), default=0)
    return np.array(at, np.int64).reshape(-1, 2), values, np.array([len(rows), width], np.int64)


@bound("DecodeCSV", multi=True, stateful=False)
def _csv(node: Node) -> Function:
    kinds, chosen, nothing = node.attrs["OUT_TYPE"], node.attr("select_cols") or [], node.attr("na_value", "")
    quoting: Any = csv.QUOTE_MINIMAL if node.attr("use_quote_delim", True) else csv.QUOTE_NONE

    def field(text: str, dtype: DType, default: Any, column: int, line: int) -> Any:
        if text in ("", nothing):
            if not np.size(default):
                raise InvalidArgumentError(f"Field {column} is required but missing in record {line}!")
            return np.asarray(default, object if dtype is string else None).reshape(-1)[0]
        try:
            return text.encode("latin-1") if dtype is string else number(text.encode(), dtype)
        except InvalidArgumentError:
            raise InvalidArgumentError(f"Field {column} in record {line} is not a valid {dtype.name}: {text}") from None

    def run(records: Any, *defaults: Any) -> list[Any]:
        lines = texts(records)
        out = [np.empty(lines.shape, t.np) for t in kinds]
        for i, raw in enumerate(lines.reshape(-1)):
            text = raw.decode("latin-1").rstrip("\r\n")
            row = next(csv.reader([text], delimiter=node.attr("field_delim", ","), quoting=quoting), [""])
            row = [row[c] for c in chosen] if chosen else row
            if len(row) != len(kinds):
                raise InvalidArgumentError(f"Expect {len(kinds)} fields but have {len(row)} in record {i}")
            for column, (cell, dtype, default) in enumerate(zip(row, kinds, defaults)):
                out[column].reshape(-1)[i] = field(cell, dtype, default, column, i)
        return out

    return run
