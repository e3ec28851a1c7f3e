"""Models in files: their weights, in TensorFlow's checkpoints or in HDF5; and whole models, in HDF5 or in a SavedModel.

HDF5 has Keras' layout, so that either reads what the other wrote; it needs h5py. A SavedModel has the model's config
among its assets, beside a signature for servers.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from sparkflow.framework.graph import Graph
from sparkflow.keras import backend, losses, metrics, optimizers
from sparkflow.keras.configs import config_of, model_of, plain
from sparkflow.keras.hdf5 import HDF5, opened, read_weights, text, write_weights
from sparkflow.saved_model.builder import SavedModelBuilder
from sparkflow.saved_model.signature_constants import DEFAULT_SERVING_SIGNATURE_DEF_KEY
from sparkflow.saved_model.signature_def_utils import predict_signature_def
from sparkflow.saved_model.tag_constants import SERVING
from sparkflow.session.session import Session
from sparkflow.train.checkpoint_state import checkpoint_exists, update_checkpoint_state
from sparkflow.train.object_checkpoint import Checkpoint
from sparkflow_runtime.wire.errors import AlreadyExistsError, NotFoundError

_CONFIG = "saved_model.json"  # among a SavedModel's assets
_TRAINING = "training.json"


class _Weights(Checkpoint):
    """A model as a checkpoint's root, its parts in the model's order."""

    def __init__(self, model: Any):
        super().__init__()
        self._model = model

    def _named_parts(self) -> list[tuple[str, object]]:
        return self._model._named_parts()


def weights_are_at(path: str) -> bool:
    return os.path.isfile(path) or checkpoint_exists(path)


def _is_hdf5(path: str, save_format: str | None, otherwise: bool) -> bool:
    """Raises ValueError on another format."""
    if save_format not in (None, "tf", "tensorflow", "h5", "hdf5", "keras"):
        raise ValueError(f'Unknown format "{save_format}"; it is one of "tf" and "h5"')
    if save_format is not None:
        return save_format not in ("tf", "tensorflow")
    return path.endswith(HDF5) or otherwise


@contextmanager
def _graph_of(model: Any) -> Iterator[Any]:
    """Its graph, and the session there."""
    if not model.weights:
        if not model.built:
            raise ValueError(
                f"Model {model.name} has no weights yet: call it on data, or fit it, before you save or load them"
            )
        yield backend.get_session()
        return
    with model.weights[0].op.graph.as_default():
        yield backend.get_session()


def save_weights(model: Any, filepath: Any, overwrite: bool = True, save_format: str | None = None) -> None:
    """In HDF5 where the path ends in .h5, .hdf5 or .keras, else in a checkpoint of that prefix, its folder's latest
    one. Raises AlreadyExistsError where something is there and overwrite is False."""
    path = os.fspath(filepath)
    if not overwrite and weights_are_at(path):
        raise AlreadyExistsError(f"{path} exists already: give overwrite=True, or another path")
    with _graph_of(model) as session:
        if _is_hdf5(path, save_format, False):
            with opened(path, "w") as file:
                write_weights(file, model.layers)
            return
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        _Weights(model).write(path, session)
        update_checkpoint_state(os.path.dirname(path) or ".", path, [path], save_relative_paths=True)


def load_weights(model: Any, filepath: Any, by_name: bool = False, skip_mismatch: bool = False) -> None:
    """Of HDF5, or of a checkpoint of that prefix. by_name: layers of HDF5 are found by their names, others stay as they
    are; skip_mismatch: so do those of other shapes. Raises NotFoundError where nothing is there."""
    path = os.fspath(filepath)
    if not weights_are_at(path):
        raise NotFoundError(f"No weights at {path}: neither a file, nor a checkpoint of that prefix")
    with _graph_of(model) as session:
        if os.path.isfile(path):
            with opened(path, "r") as file:
                read_weights(file.get("model_weights", file), model.layers, by_name, skip_mismatch)
            return
        if by_name:
            raise NotImplementedError("Weights may only be loaded by name from HDF5, not from a checkpoint")
        _Weights(model).restore(path).assert_existing_objects_matched().run_restore_ops(session)


def save(
    model: Any, filepath: Any, overwrite: bool = True, include_optimizer: bool = True, save_format: str | None = None
) -> None:
    """HDF5, or with save_format="tf" the folder of a SavedModel: the model's config, its weights, and how it was
    compiled with the state of its optimizer."""
    path = os.fspath(filepath)
    if not overwrite and os.path.exists(path):
        raise AlreadyExistsError(f"{path} exists already: give overwrite=True, or another path")
    config = {"class_name": type(model).__name__, "config": config_of(model)}
    training = _training_config(model) if include_optimizer else None
    with _graph_of(model):
        if _is_hdf5(path, save_format, not os.path.isdir(path)):
            with opened(path, "w") as file:
                file.attrs["model_config"] = json.dumps(config, default=plain).encode()
                if training is not None:
                    file.attrs["training_config"] = json.dumps(training, default=plain).encode()
                write_weights(file.create_group("model_weights"), model.layers)
                if training is not None and model.optimizer.weights:
                    _write_optimizer(file, model.optimizer)
            return
        state = model.optimizer.get_weights() if training is not None else []
        values = model.get_weights()
    part = f"{path}.part"
    try:
        kinds = {type(la).__name__: type(la) for la in model._everything()}
        _write_folder(part, config, kinds, values, training, state)
        if os.path.isdir(path):
            shutil.rmtree(path)
        os.replace(part, path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _training_config(model: Any) -> dict[str, Any] | None:
    given = model._compile_arguments
    if given is None or type(model.optimizer).__name__ == "TFOptimizer":
        return None
    kept = {key: plain_loss(given[key]) for key in ("loss", "metrics", "weighted_metrics", "loss_weights")}
    return {"optimizer_config": optimizers.serialize(model.optimizer), **kept}


def plain_loss(value: Any) -> Any:
    """Names and configs instead of functions and objects."""
    if isinstance(value, dict):
        return {key: plain_loss(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_loss(v) for v in value]
    return value if value is None or isinstance(value, (str, int, float)) else plain(value)


def _write_optimizer(file: Any, optimizer: Any) -> None:
    group = file.create_group("optimizer_weights")
    variables = optimizer.weights
    group.attrs["weight_names"] = [v.name.encode() for v in variables]
    for v, value in zip(variables, optimizer.get_weights()):
        group.create_dataset(v.name, data=value)


def _write_folder(
    folder: str, config: Any, kinds: dict[str, Any], values: list[Any], training: Any, state: list[Any]
) -> None:
    """The model alone, without what trains it, in a graph of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    with Graph().as_default(), Session() as session, backend.learning_phase_scope(0):
        yours = {name: kind for name, kind in kinds.items() if not kind.__module__.startswith("sparkflow.")}
        model = model_of(json.loads(json.dumps(config, default=plain)), yours)
        model.set_weights(values)
        signature = predict_signature_def(
            dict(zip(model._input_names(), model._input_tensors())),
            dict(zip(model._output_names(), model._output_tensors())),
        )
        builder = SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(session, [SERVING], {DEFAULT_SERVING_SIGNATURE_DEF_KEY: signature})
        builder.save()
    _write_json(os.path.join(folder, "assets", _CONFIG), config)
    np.savez(os.path.join(folder, "assets", "weights.npz"), *values)
    if training is not None:
        _write_json(os.path.join(folder, "assets", _TRAINING), training)
        np.savez(os.path.join(folder, "assets", "optimizer.npz"), *state)


def _write_json(path: str, value: Any) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, default=plain)


def _kept(path: str) -> list[Any]:
    with np.load(path) as file:
        return [file[name] for name in file.files]


def load_model(filepath: Any, custom_objects: dict[str, Any] | None = None, compile: bool = True) -> Any:
    """The model that `save` wrote, here or in Keras (HDF5). custom_objects: classes and functions of yours by name.
    Raises NotFoundError where nothing is there."""
    path = os.fspath(filepath)
    if os.path.isfile(path):
        return _load_hdf5(path, custom_objects, compile)
    found = os.path.join(path, "assets", _CONFIG)
    if not os.path.isfile(found):
        raise NotFoundError(
            f"No model at {path}: it is no HDF5 file, and there is no {found}, as model.save(path, "
            "save_format='tf') writes; tf.saved_model.loader loads other SavedModels"
        )
    with open(found, encoding="utf-8") as file:
        model = model_of(json.load(file), custom_objects)
    with _graph_of(model):
        model.set_weights(_kept(os.path.join(path, "assets", "weights.npz")))
    training = os.path.join(path, "assets", _TRAINING)
    if compile and os.path.isfile(training):
        with open(training, encoding="utf-8") as file:
            _compile(model, json.load(file), custom_objects)
        _set_optimizer(model, _kept(os.path.join(path, "assets", "optimizer.npz")))
    return model


def _load_hdf5(path: str, custom_objects: Any, compile: bool) -> Any:
    with opened(path, "r") as file:
        config = file.attrs.get("model_config")
        if config is None:
            raise ValueError(f"No model found in config file {path}: it has weights alone, for model.load_weights")
        model = model_of(json.loads(text(config)), custom_objects)
        with _graph_of(model):
            read_weights(file["model_weights"], model.layers)
        training = file.attrs.get("training_config")
        if compile and training is not None:
            _compile(model, json.loads(text(training)), custom_objects)
            if "optimizer_weights" in file:
                group = file["optimizer_weights"]
                _set_optimizer(model, [np.asarray(group[text(n)]) for n in group.attrs["weight_names"]])
    return model


def _compile(model: Any, config: dict[str, Any], custom_objects: Any) -> None:
    def made(value: Any, module: Any) -> Any:
        if isinstance(value, dict) and "class_name" in value:
            return module.deserialize(value, custom_objects)
        if isinstance(value, dict):
            return {key: made(v, module) for key, v in value.items()}
        if isinstance(value, (list, tuple)):
            return [made(v, module) for v in value]
        return (custom_objects or {}).get(value, value) if isinstance(value, str) else value

    model.compile(
        optimizers.deserialize(config["optimizer_config"], custom_objects),
        made(config.get("loss"), losses),
        metrics=made(config.get("metrics"), metrics),
        weighted_metrics=made(config.get("weighted_metrics"), metrics),
        loss_weights=config.get("loss_weights"),
    )


def _set_optimizer(model: Any, values: list[Any]) -> None:
    """The optimizer's variables are made, as the first step would make them, and given their values."""
    if not values:
        return
    with _graph_of(model):
        model._make_train_step()
        model.optimizer.set_weights(values)
