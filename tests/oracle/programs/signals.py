"""tf.signal: frames, windows, transforms of frames, mel scales."""

from __future__ import annotations

import numpy as np

from tests.oracle.cases.values import noise
from tests.oracle.compare import Tolerance
from tests.oracle.programs.api import D, F, expression

_SUMS = Tolerance(4096, scaled=True)
_X = noise(F, 2, 37)
expression("frames", [_X], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [None, None])] for f in [
        tf.signal.frame(x, 8, 3), tf.signal.frame(x, 8, 3, pad_end=True, pad_value=2.5),
        tf.signal.frame(x, 5, 7, axis=1), tf.signal.frame(tf.transpose(x), 8, 5, axis=0), tf.signal.frame(x, 50, 3),
        tf.signal.overlap_and_add(tf.signal.frame(x, 8, 3), 3), tf.signal.overlap_and_add(x, 5),
    ]
], True, tolerance=_SUMS)  # fmt: skip
expression("windows", [], lambda tf: [
    f for n in (1, 7, 8) for f in [
        tf.signal.hann_window(n), tf.signal.hann_window(n, periodic=False), tf.signal.hamming_window(n),
        tf.signal.vorbis_window(n), tf.signal.hann_window(n, dtype=tf.float64), tf.signal.kaiser_window(n, 7.0),
    ]
] + [tf.signal.inverse_stft_window_fn(3)(8, dtype=tf.float32), tf.signal.kaiser_bessel_derived_window(8)],
    tolerance=Tolerance(64, floor=1.0))  # fmt: skip
expression("stft", [_X], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [None, 37])] for f in [
        tf.abs(tf.signal.stft(x, 8, 3)), tf.abs(tf.signal.stft(x, 7, 3, fft_length=20, pad_end=True)),
        tf.abs(tf.signal.stft(x, 9, 4, window_fn=None)), tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4),
        tf.signal.inverse_stft(tf.signal.stft(x, 8, 4), 8, 4, window_fn=tf.signal.inverse_stft_window_fn(4)),
    ]
], True, tolerance=_SUMS)  # fmt: skip
expression("shifts", [noise(F, 4, 5)], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [4, 5])] for f in
    [tf.signal.fftshift(x), tf.signal.fftshift(x, 1), tf.signal.ifftshift(x), tf.signal.ifftshift(x, [0])]
])  # fmt: skip
for _dtype in (F, D):
    expression(f"cosines-{_dtype}", [noise(_dtype, 3, 8)], lambda tf, x: [
        f for x in [tf.ensure_shape(x, [None, 8])] for f in [
            *(t(x, kind) for t in (tf.signal.dct, tf.signal.idct) for kind in (1, 2, 3, 4)),
            *(t(x, kind, norm="ortho") for t in (tf.signal.dct, tf.signal.idct) for kind in (2, 3, 4)),
            tf.signal.dct(x, n=5), tf.signal.dct(x, n=11, norm="ortho"), tf.spectral.dct(x),
        ]
    ], True, tolerance=_SUMS)  # fmt: skip
expression("mdcts", [_X], lambda tf, x: [
    f for x in [tf.ensure_shape(x, [2, 37])] for f in [
        tf.signal.mdct(x, 8), tf.signal.mdct(x, 8, norm="ortho", pad_end=True), tf.signal.mdct(x, 8, window_fn=None),
        tf.signal.inverse_mdct(tf.signal.mdct(x, 8)),
        tf.signal.inverse_mdct(tf.signal.mdct(x, 8, norm="ortho"), norm="ortho"),
    ]
], True, tolerance=_SUMS)  # fmt: skip
expression("mels", [np.abs(noise(F, 2, 129)) + 0.1], lambda tf, x: [
    tf.signal.linear_to_mel_weight_matrix(), tf.signal.linear_to_mel_weight_matrix(12, 33, 16000, 20.0, 7600.0),
    tf.signal.mfccs_from_log_mel_spectrograms(
        tf.math.log(tf.tensordot(tf.ensure_shape(x, [None, 129]), tf.signal.linear_to_mel_weight_matrix(), 1) + 1e-3)
    ),
], tolerance=Tolerance(8192, scaled=True))  # fmt: skip
