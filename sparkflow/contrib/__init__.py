"""tf.contrib: homes of names, most of which exist elsewhere too. Its parts are loaded when they are first named."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_PARTS = (
    "autograph", "cluster_resolver", "compiler", "crf", "cudnn_rnn", "data", "deprecated", "distribute",
    "distributions", "eager", "estimator", "factorization", "feature_column", "framework", "graph_editor", "hooks",
    "image", "keras", "layers", "learn", "legacy_seq2seq", "lookup", "losses", "metrics", "nn", "opt", "predictor",
    "rnn", "seq2seq", "signal", "slim", "sparsemax", "staging", "stateless", "tensorboard", "tpu", "training", "util",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "autograph":
        return import_module("sparkflow.autograph")
    if name in _PARTS:
        part = import_module(f"sparkflow.contrib.{name}")
        import_module("sparkflow.contrib.homes").install(name)
        return part
    raise AttributeError(f"tf.contrib has no {name!r} here; it has {', '.join(_PARTS)}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PARTS})
