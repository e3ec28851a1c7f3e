"""tf.contrib: homes of names, most of which exist elsewhere too. Its parts are loaded when they are first named."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
    "crf", "data", "distributions", "eager", "feature_column", "framework", "layers", "learn", "legacy_seq2seq",
    "lookup", "losses", "metrics", "opt", "predictor", "rnn", "seq2seq", "slim", "staging", "tensorboard", "tpu",
    "training",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"sparkflow.contrib.{name}")
    raise AttributeError(f"tf.contrib has no {name!r} here; it has {', '.join(_PARTS)}")
