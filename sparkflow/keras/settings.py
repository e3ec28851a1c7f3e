"""What tf.keras.backend is told: the type of what has none, the least number, where channels lie."""

from __future__ import annotations

from typing import Any

_settings: dict[str, Any] = {"floatx": "float32", "epsilon": 1e-7, "image_data_format": "channels_last"}


def floatx() -> str:
    return str(_settings["floatx"])


def set_floatx(value: str) -> None:
    """The type of what is made without one. Raises ValueError unless it is float16, float32 or float64."""
    if value not in ("float16", "float32", "float64"):
        raise ValueError(f"Unknown floatx type: {value!r}; it is one of float16, float32, float64")
    _settings["floatx"] = value


def epsilon() -> float:
    return float(_settings["epsilon"])


def set_epsilon(value: float) -> None:
    _settings["epsilon"] = float(value)


def image_data_format() -> str:
    return str(_settings["image_data_format"])


def set_image_data_format(data_format: str) -> None:
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError(f"Unknown data_format: {data_format!r}; it is channels_last or channels_first")
    _settings["image_data_format"] = data_format
