"""Signals over time: frames, short-time Fourier and cosine transforms, mel scales.

Source: Makhoul 1980 (cosine transforms by Fourier's), Griffin and Lim 1984 (the inverse), Davis and Mermelstein 1980.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, array_select, array_slice, fourier, math, math_reduce, operators  # noqa: F401
from sparkflow.ops.math_special import complex, real
from sparkflow.ops.signal_windows import Window, hann_window, vorbis_window
from sparkflow_runtime.wire import dtypes

# ---------------------------------------------------------------------- frames


def _last(x: Tensor, what: str) -> int | None:
    """The size of the last axis, where it is known. Raises ValueError on a scalar or an unknown rank."""
    if x._shape is None or not x._shape:
        raise ValueError(f"{what}: signals must be of a known rank of at least 1, got shape {x.shape}")
    return x._shape[-1]


def _most(a: Any, b: Any) -> Any:
    """The larger, a Python number where both are."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else math.maximum(a, b)


def _int(value: Any) -> Any:
    """A Python number where it is known, else a scalar tensor."""
    known = constant_value(convert_to_tensor(value, dtypes.int32))
    return convert_to_tensor(value, dtypes.int32) if known is None else int(known)


def frame(
    signal: Any, frame_length: Any, frame_step: Any, pad_end: bool = False, pad_value: Any = 0, axis: int = -1,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """[..., samples, ...] -> [..., frames, frame_length, ...]: windows that begin frame_step samples apart.

    pad_end: the last ones may go beyond the end, where pad_value stands. Raises ValueError on an unknown rank.
    """
    with get_default_graph().name_scope(name or "frame"):
        signal = convert_to_tensor(signal, name="signal")
        rank = signal.shape.ndims
        if rank is None or not -rank <= axis < rank:
            raise ValueError(f"frame: the rank must be known and axis {axis} be one of it, got shape {signal.shape}")
        axis %= rank
        length, step = _int(frame_length), _int(frame_step)
        size = signal._shape[axis] if signal._shape is not None else None
        samples = array.shape(signal)[axis] if size is None else size
        if pad_end:
            count = (samples + step - 1) // step
            missing = _most(0, length + step * (count - 1) - samples)
            pads = [[0, missing if i == axis else 0] for i in range(rank)]
            fill = convert_to_tensor(pad_value, signal.dtype.base_dtype)
            signal = array.pad(signal, array_join.stack([array_join.stack(p) for p in pads]), constant_values=fill)
        else:
            count = _most(0, 1 + (samples - length) // step)
        starts = math.range(count) * step
        places = array.expand_dims(starts, 1) + array.expand_dims(math.range(length), 0)
        out = array_slice.gather(signal, places, axis=axis)
        known = constant_value(convert_to_tensor(count, dtypes.int32))
        dims = list(signal._shape or ())
        dims[axis : axis + 1] = [None if known is None else int(known), length if isinstance(length, int) else None]
        out.set_shape(dims)
        return out


def overlap_and_add(signal: Any, frame_step: Any, name: str | None = None) -> Tensor:
    """[..., frames, length] -> [..., (frames - 1) * frame_step + length]: the frames put frame_step apart and added."""
    with get_default_graph().name_scope(name or "overlap_and_add"):
        signal = convert_to_tensor(signal, name="signal")
        if signal.shape.ndims is None or signal.shape.ndims < 2:
            raise ValueError(f"overlap_and_add: frames must be of a known rank of at least 2, got {signal.shape}")
        step = _int(frame_step)
        whole = array.shape(signal)
        frames, length = (whole[i] if d is None else d for i, d in zip((-2, -1), signal._shape[-2:]))
        total = (frames - 1) * step + length
        places = array.expand_dims(math.range(frames) * step, 1) + array.expand_dims(math.range(length), 0)
        flat = array.reshape(signal, [-1, frames * length])
        sums = math_reduce.unsorted_segment_sum(array.transpose(flat), array.reshape(places, [-1]), total)
        out = array.reshape(array.transpose(sums), array_join.concat([whole[:-2], array.reshape(total, [1])], 0))
        known = constant_value(convert_to_tensor(total, dtypes.int32))
        out.set_shape((*(signal._shape or ())[:-2], None if known is None else int(known)))
        return out


# ---------------------------------------------------------------------- Fourier's transform of frames


def _power_of_two(length: Any) -> Any:
    if isinstance(length, int):
        return 1 << max(0, (length - 1).bit_length())
    exponent = math.ceil(math.log(math.cast(length, dtypes.float32)) / np.float32(np.log(2.0)))
    return math.cast(math.pow(2.0, exponent), dtypes.int32)


def stft(
    signals: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = hann_window,
    pad_end: bool = False, name: str | None = None,
) -> Tensor:  # fmt: skip
    """[..., samples] -> [..., frames, fft_length / 2 + 1]: the Fourier transform of each windowed frame. fft_length:
    the next power of two."""
    with get_default_graph().name_scope(name or "stft"):
        signals = convert_to_tensor(signals, name="signals")
        length = _int(frame_length)
        framed = frame(signals, length, frame_step, pad_end)
        if window_fn is not None:
            framed = framed * window_fn(length, dtype=framed.dtype.base_dtype)
        size = _power_of_two(length) if fft_length is None else _int(fft_length)
        return fourier.rfft(_to_length(framed, size), array_join.stack([size]))


def _to_length(x: Tensor, size: Any) -> Tensor:
    """The last axis cut, or filled with zeros, to that size."""
    own = _last(x, "stft")
    if isinstance(size, int) and own is not None and own >= size:
        return x[..., :size]
    missing = _most(0, size - (array.shape(x)[-1] if own is None else own))
    pads = [[0, 0]] * (len(x._shape or ()) - 1)
    filled = array.pad(x, array_join.stack([*map(array_join.stack, pads), array_join.stack([0, missing])]))
    filled = filled[..., :size]
    filled.set_shape((*(x._shape or ())[:-1], size if isinstance(size, int) else None))
    return filled


def inverse_stft(
    stfts: Any, frame_length: Any, frame_step: Any, fft_length: Any = None, window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:  # fmt: skip
    """[..., frames, fft_length / 2 + 1] -> [..., samples]; exact with window_fn=inverse_stft_window_fn(frame_step)."""
    with get_default_graph().name_scope(name or "inverse_stft"):
        stfts = convert_to_tensor(stfts, name="stfts")
        length = _int(frame_length)
        size = _power_of_two(length) if fft_length is None else _int(fft_length)
        frames = _to_length(fourier.irfft(stfts, array_join.stack([size])), length)
        if window_fn is not None:
            frames = frames * window_fn(length, dtype=stfts.dtype.real_dtype)
        return overlap_and_add(frames, frame_step)


def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """Rolled so that the zero frequency is in the middle, along the axes (all of them)."""
    return _shifted(x, axes, 1, name or "fftshift")


def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """fftshift undone."""
    return _shifted(x, axes, -1, name or "ifftshift")


def _shifted(x: Any, axes: Any, sign: int, name: str) -> Tensor:
    from sparkflow.ops.array_blocks import roll

    with get_default_graph().name_scope(name):
        x = convert_to_tensor(x)
        rank = x.shape.ndims
        if axes is None and rank is None:
            raise ValueError(f"{name}: give axes, or a tensor of known rank")
        over = list(range(rank)) if axes is None else [axes] if isinstance(axes, int) else list(axes)
        half = array_slice.gather(array.shape(x), [a % rank if rank else a for a in over]) // 2
        if sign < 0:
            half = -half
        return roll(x, half, over)


# ---------------------------------------------------------------------- cosine transforms


def _checked(input: Any, type: int, axis: int, norm: str | None, n: Any = None) -> None:
    if type not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported, got {type}")
    if type == 1 and norm is not None:
        raise ValueError(f"Normalization is not supported for the Type-I DCT, got {norm!r}")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got {norm!r}")
    if axis != -1:
        raise NotImplementedError(f"axis must be -1, got {axis}")
    if n is not None and n < 1:
        raise ValueError(f"n must be at least 1, got {n}")


def dct(input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
        name: str | None = None) -> Tensor:  # fmt: skip
    """The discrete cosine transform, of kind 1 to 4, over the last axis of floats. n: cut or filled with zeros to so
    many values. norm: None (sums times 2) or "ortho", under which it is orthogonal."""
    _checked(input, type, axis, norm, n)
    with get_default_graph().name_scope(name or "dct"):
        x = convert_to_tensor(input)
        if n is not None:
            x = _to_length(x, n)
        return _transformed(x, type, norm)


def idct(input: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: str | None = None,
         name: str | None = None) -> Tensor:  # fmt: skip
    """What undoes dct with norm="ortho"; without it, the same times twice the size (minus 2 for kind 1)."""
    _checked(input, type, axis, norm)
    if n is not None:
        raise NotImplementedError("idct: n is not supported")
    with get_default_graph().name_scope(name or "idct"):
        return _transformed(convert_to_tensor(input), {1: 1, 2: 3, 3: 2, 4: 4}[type], norm)


def _transformed(x: Tensor, kind: int, norm: str | None) -> Tensor:
    own, want = _last(x, "dct"), x.dtype.base_dtype
    size: Any = array.shape(x)[-1] if own is None else own
    wide = want if want is dtypes.float64 else dtypes.float32
    if want not in (dtypes.float32, dtypes.float64):
        x = math.cast(x, wide)
    count = math.cast(size, wide)
    if kind == 1 and own is not None and own < 2:
        raise ValueError(f"DCT-I requires the dimension to be greater than one, got {own}")
    found = (_first, _second, _third, _fourth)[kind - 1](x, size, count, norm)
    found.set_shape(x.shape)
    return found


def _first(x: Tensor, size: Any, count: Tensor, norm: str | None) -> Tensor:
    return real(fourier.rfft(array_join.concat([x, array.reverse(x, [-1])[..., 1:-1]], -1)))


def _turn(angle: Tensor, by: Any = None) -> Tensor:
    """exp(-i angle) times a real factor."""
    factor = array.ones_like(angle) if by is None else by
    return complex(math.cos(angle) * factor, -math.sin(angle) * factor)


def _second(x: Tensor, size: Any, count: Tensor, norm: str | None) -> Tensor:
    angle = math.cast(math.range(size), count.dtype) * (np.pi * 0.5) / count
    whole = fourier.rfft(x, array_join.stack([2 * size]))[..., :size]
    found = real(whole * _turn(angle, 2.0 * array.ones_like(angle)))
    if norm != "ortho":
        return found
    first = array.ones_like(angle[:1]) * math.rsqrt(count) * 0.5
    others = array.ones_like(angle[1:]) * math.sqrt(0.5 / count)
    return found * array_join.concat([first, others], -1)


def _third(x: Tensor, size: Any, count: Tensor, norm: str | None) -> Tensor:
    angle = math.cast(math.range(size), count.dtype) * (np.pi * 0.5) / count
    if norm == "ortho":
        first = array.ones_like(angle[:1]) * math.sqrt(count)
        others = array.ones_like(angle[1:]) * math.sqrt(count * 0.5)
        x = x * array_join.concat([first, others], -1)
    else:
        x = x * count
    turned = complex(x, array.zeros_like(x)) * _turn(-angle)
    scaled = turned * complex(2.0 * array.ones_like(angle), array.zeros_like(angle))
    return fourier.irfft(scaled, array_join.stack([2 * size]))[..., :size]


def _fourth(x: Tensor, size: Any, count: Tensor, norm: str | None) -> Tensor:
    """Of the odd values of a second kind of twice the size."""
    pads = [[0, 0]] * (len(x._shape or ()) - 1)
    doubled = array.pad(x, array_join.stack([*map(array_join.stack, pads), array_join.stack([0, size])]))
    whole = _second(doubled, 2 * size, 2.0 * count, None)
    found = whole[..., 1::2]
    return found * (math.sqrt(0.5 / count) if norm == "ortho" else 1.0)


def mdct(
    signals: Any, frame_length: int, window_fn: Window | None = vorbis_window, pad_end: bool = False,
    norm: str | None = None, name: str | None = None,
) -> Tensor:  # fmt: skip
    """[..., samples] -> [..., frames, frame_length / 2]: the modified discrete cosine transform of frames that overlap
    by half. Raises ValueError unless frame_length is a multiple of 4."""
    with get_default_graph().name_scope(name or "mdct"):
        half = _half(frame_length)
        framed = frame(signals, frame_length, half, pad_end)
        if window_fn is not None:
            framed = framed * window_fn(frame_length, dtype=framed.dtype.base_dtype)
        else:
            framed = framed * float(np.sqrt(0.5))
        a, b, c, d = array_join.split(framed, 4, -1)
        first = -array.reverse(c, [-1]) - d
        return dct(array_join.concat([first, a - array.reverse(b, [-1])], -1), 4, norm=norm)


def inverse_mdct(
    mdcts: Any, window_fn: Window | None = vorbis_window, norm: str | None = None, name: str | None = None
) -> Tensor:
    """[..., frames, half] -> [..., samples]: mdct undone, but for the first and the last half of a frame."""
    with get_default_graph().name_scope(name or "inverse_mdct"):
        mdcts = convert_to_tensor(mdcts, name="mdcts")
        half = _last(mdcts, "inverse_mdct")
        if half is None:
            raise ValueError(f"inverse_mdct: the last size must be known, got {mdcts.shape}")
        scale = 1.0 if norm == "ortho" else 0.5 / half
        back = dct(mdcts, 4, norm=norm) * scale
        first, second = array_join.split(back, 2, -1)
        parts = [second, -array.reverse(second, [-1]), -array.reverse(first, [-1]), -first]
        frames = array_join.concat(parts, -1)
        if window_fn is not None:
            frames = frames * window_fn(2 * half, dtype=frames.dtype.base_dtype)
        else:
            frames = frames * float(np.sqrt(0.5))
        return overlap_and_add(frames, half)


def _half(frame_length: Any) -> int:
    length = _int(frame_length)
    if not isinstance(length, int) or length % 4:
        raise ValueError(f"mdct: frame_length must be a known multiple of 4, got {frame_length}")
    return length // 2


# ---------------------------------------------------------------------- mel scales


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log(1.0 + np.asarray(hertz, np.float64) / 700.0)


def linear_to_mel_weight_matrix(
    num_mel_bins: int = 20, num_spectrogram_bins: Any = 129, sample_rate: Any = 8000, lower_edge_hertz: float = 125.0,
    upper_edge_hertz: float = 3800.0, dtype: Any = dtypes.float32, name: str | None = None,
) -> Tensor:  # fmt: skip
    """[num_spectrogram_bins, num_mel_bins]: how much of each frequency is in each of the triangles that are evenly
    spread over the mel scale from lower_edge_hertz to upper_edge_hertz. All arguments are Python numbers.

    Raises ValueError on bounds that make no sense.
    """
    if num_mel_bins <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {num_mel_bins}")
    if not 0 <= lower_edge_hertz < upper_edge_hertz:
        raise ValueError(
            f"lower_edge_hertz must be non-negative and below upper_edge_hertz, got {lower_edge_hertz} and "
            f"{upper_edge_hertz}"
        )
    rate, bins = (constant_value(convert_to_tensor(v)) for v in (sample_rate, num_spectrogram_bins))
    if rate is None or bins is None:
        raise ValueError("linear_to_mel_weight_matrix: sample_rate and num_spectrogram_bins must be known")
    if rate <= 0 or upper_edge_hertz > rate / 2:
        raise ValueError(
            f"upper_edge_hertz must not be larger than the Nyquist frequency of {rate}: {upper_edge_hertz}"
        )
    want = dtypes.as_dtype(dtype)
    found = _mel(np.linspace(0.0, float(rate) / 2, int(bins))[1:, None])
    edges = np.linspace(_mel(lower_edge_hertz), _mel(upper_edge_hertz), num_mel_bins + 2)
    low, centre, high = edges[:-2], edges[1:-1], edges[2:]
    weights = np.maximum(0, np.minimum((found - low) / (centre - low), (high - found) / (high - centre)))
    return convert_to_tensor(np.pad(weights, [[1, 0], [0, 0]]).astype(want.np), name=name or "linear_to_mel")


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """[..., mel bins]: the mel-frequency cepstral coefficients of logarithms of mel spectrograms."""
    with get_default_graph().name_scope(name or "mfccs_from_log_mel_spectrograms"):
        spectrograms = convert_to_tensor(log_mel_spectrograms)
        bins = _last(spectrograms, "mfccs")
        if bins == 0:
            raise ValueError("num_mel_bins must be positive. Got: 0")
        count = array.shape(spectrograms)[-1] if bins is None else bins
        return dct(spectrograms) * math.rsqrt(math.cast(count, spectrograms.dtype) * 2.0)
