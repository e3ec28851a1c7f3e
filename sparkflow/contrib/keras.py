"""tf.contrib.keras: where tf.keras was before 1.4."""

from __future__ import annotations

from typing import Any

from sparkflow import keras


def __getattr__(name: str) -> Any:
    return getattr(keras, name)


def __dir__() -> list[str]:
    return dir(keras)
