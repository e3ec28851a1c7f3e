"""tensorflow.python.layers.utils: what libraries build layers of their own with."""

from __future__ import annotations

from typing import Any

from sparkflow.ops.control_flow_cond import smart_cond, smart_constant_value

__all__ = [
    "constant_value",
    "conv_input_length",
    "conv_output_length",
    "convert_data_format",
    "deconv_output_length",
    "normalize_data_format",
    "normalize_padding",
    "normalize_tuple",
    "smart_cond",
]

constant_value = smart_constant_value
_FORMATS = {
    ("channels_last", 3): "NWC", ("channels_last", 4): "NHWC", ("channels_last", 5): "NDHWC",
    ("channels_first", 3): "NCW", ("channels_first", 4): "NCHW", ("channels_first", 5): "NCDHW",
}  # fmt: skip


def convert_data_format(data_format: str, ndim: int) -> str:
    """ "channels_last" or "channels_first" of `ndim` axes, batch and channels among them, in the letters that ops take.

    Raises ValueError on another word or number of axes."""
    found = _FORMATS.get((data_format, ndim))
    if found is None:
        raise ValueError(
            f"convert_data_format: channels_last or channels_first of 3 to 5 axes, got {data_format!r} of {ndim}"
        )
    return found


def normalize_tuple(value: Any, n: int, name: str) -> tuple[int, ...]:
    """n whole numbers, from one or from as many. Raises ValueError otherwise."""
    if isinstance(value, int):
        return (value,) * n
    listed = tuple(value) if hasattr(value, "__iter__") else ()
    if len(listed) != n or not all(hasattr(v, "__index__") for v in listed):
        raise ValueError(f"The `{name}` argument must be a tuple of {n} integers. Received: {value!r}")
    return tuple(int(v) for v in listed)


def _one_of(what: str, value: Any, *words: str) -> str:
    word = str(value).lower()
    if word not in words:
        raise ValueError(f"The `{what}` argument must be one of {', '.join(words)}. Received: {value!r}")
    return word


def normalize_data_format(value: Any) -> str:
    return _one_of("data_format", value, "channels_first", "channels_last")


def normalize_padding(value: Any) -> str:
    return _one_of("padding", value, "valid", "same")


def conv_output_length(
    input_length: int | None, filter_size: int, padding: str, stride: int, dilation: int = 1
) -> int | None:
    """How long an axis is behind a convolution; None where it is not known before. padding: also "full"."""
    if input_length is None:
        return None
    wide = filter_size + (filter_size - 1) * (dilation - 1)
    added = {"same": 0, "valid": 1 - wide, "full": wide - 1}[_one_of("padding", padding, "same", "valid", "full")]
    return (input_length + added + stride - 1) // stride


def conv_input_length(output_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """How long an axis was that a convolution has made this long."""
    if output_length is None:
        return None
    half = {"same": filter_size // 2, "valid": 0, "full": filter_size - 1}
    return (output_length - 1) * stride - 2 * half[_one_of("padding", padding, *half)] + filter_size


def deconv_output_length(input_length: int | None, filter_size: int, padding: str, stride: int) -> int | None:
    """How long an axis is behind a transposed convolution."""
    if input_length is None:
        return None
    over = max(filter_size - stride, 0)
    added = {"same": 0, "valid": over, "full": -(stride + filter_size - 2)}
    return input_length * stride + added[_one_of("padding", padding, *added)]
