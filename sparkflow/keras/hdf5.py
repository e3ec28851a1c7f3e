"""Weights in HDF5, in Keras' layout: a group for each layer, a dataset for each of its weights, their orders in
attributes."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow.keras import backend
from sparkflow_runtime.wire.errors import UnimplementedError

HDF5 = (".h5", ".hdf5", ".keras")
_MOST_BYTES = 64512  # of an attribute in HDF5


@contextmanager
def opened(path: str, mode: str) -> Iterator[Any]:
    """The file; one that is written appears once it is whole. Raises UnimplementedError where h5py is not installed."""
    try:
        h5py: Any = import_module("h5py")
    except ImportError:
        raise UnimplementedError(
            f"{path}: HDF5 needs h5py, which is not installed: `pip install h5py`, or save with save_format='tf'"
        ) from None
    if mode == "r":
        with h5py.File(path, "r") as file:
            yield file
        return
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    part = f"{path}.part"
    try:
        with h5py.File(part, "w") as file:
            yield file
        os.replace(part, path)
    finally:
        if os.path.exists(part):
            os.remove(part)


def text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _set_names(group: Any, key: str, names: Sequence[str]) -> None:
    """In parts where they are too long for one attribute."""
    encoded = [n.encode() for n in names]
    array = np.asarray(encoded) if encoded else np.zeros(0, "S1")
    parts = 1
    while array.nbytes / parts > _MOST_BYTES:
        parts += 1
    if parts == 1:
        group.attrs[key] = array
    else:
        for i, part in enumerate(np.array_split(array, parts)):
            group.attrs[f"{key}{i}"] = part


def _names(group: Any, key: str) -> list[str]:
    if key in group.attrs:
        return [text(n) for n in group.attrs[key]]
    found: list[str] = []
    part = 0
    while f"{key}{part}" in group.attrs:
        found += [text(n) for n in group.attrs[f"{key}{part}"]]
        part += 1
    return found


def _in_order(layer: Any) -> list[Any]:
    """Those that are trained first, as Keras writes them."""
    return [*layer.trainable_weights, *layer.non_trainable_weights]


def write_weights(group: Any, layers: Sequence[Any]) -> None:
    _set_names(group, "layer_names", [layer.name for layer in layers])
    group.attrs["backend"], group.attrs["keras_version"] = b"tensorflow", b"2.2.4-tf"
    for layer in layers:
        own, weights = group.create_group(layer.name), _in_order(layer)
        _set_names(own, "weight_names", [w.name for w in weights])
        for w, value in zip(weights, backend.batch_get_value(weights)):
            own.create_dataset(w.name, data=value)


def read_weights(group: Any, layers: Sequence[Any], by_name: bool = False, skip_mismatch: bool = False) -> None:
    """Give the layers what is there for them, in order or by their names. Raises ValueError where that differs."""
    named = {name: group[name] for name in _names(group, "layer_names")}
    stored = [(name, g) for name, g in named.items() if _names(g, "weight_names")]
    if by_name:
        pairs = [(layer, named[layer.name]) for layer in layers if layer.name in named]
    else:
        own = [layer for layer in layers if layer.weights]
        if len(own) != len(stored):
            raise ValueError(
                f"Trying to load a weight file containing {len(stored)} layers into a model with {len(own)} layers"
            )
        pairs = [(layer, g) for layer, (_, g) in zip(own, stored)]
    values: list[tuple[Any, Any]] = []
    for layer, g in pairs:
        weights, there = _in_order(layer), [np.asarray(g[n]) for n in _names(g, "weight_names")]
        shapes = [tuple(w.shape.as_list()) for w in weights]
        if shapes != [v.shape for v in there]:
            what = f"Layer {layer.name} has weights of shapes {shapes}, the file {[v.shape for v in there]}"
            if not (by_name and skip_mismatch):
                raise ValueError(what)
            logging.warning("%s: it is left as it is", what)
            continue
        values += zip(weights, there)
    backend.batch_set_value(values)
