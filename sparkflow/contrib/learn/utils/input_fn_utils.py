"""tf.contrib.learn.utils.input_fn_utils: serving input functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkflow.contrib.learn.model_fn import InputFnOps
from sparkflow.estimator import export


def build_parsing_serving_input_fn(
    feature_spec: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Of serialized tf.train.Examples."""
    return _ops(export.build_parsing_serving_input_receiver_fn(feature_spec, default_batch_size))


def build_default_serving_input_fn(
    features: Mapping[str, Any], default_batch_size: int | None = None
) -> Callable[[], InputFnOps]:
    """Of the features themselves."""
    return _ops(export.build_raw_serving_input_receiver_fn(features, default_batch_size))


def _ops(receive: Callable[[], Any]) -> Callable[[], InputFnOps]:
    def serving_input_fn() -> InputFnOps:
        found = receive()
        return InputFnOps(found.features, None, found.receiver_tensors)

    return serving_input_fn
