"""tf.signal."""

from sparkflow.ops.fourier_axes import fftnd, ifftnd, irfftnd, rfftnd
from sparkflow.ops.signal import (
    dct,
    fftshift,
    frame,
    idct,
    ifftshift,
    inverse_mdct,
    inverse_stft,
    linear_to_mel_weight_matrix,
    mdct,
    mfccs_from_log_mel_spectrograms,
    overlap_and_add,
    stft,
)
from sparkflow.ops.signal_windows import (
    hamming_window,
    hann_window,
    inverse_stft_window_fn,
    kaiser_bessel_derived_window,
    kaiser_window,
    vorbis_window,
)
from sparkflow.spectral import *
