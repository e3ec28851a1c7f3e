"""tf.signal."""

from sparkflow.ops.signal import (
    dct,
    fftshift,
    frame,
    hamming_window,
    hann_window,
    idct,
    ifftshift,
    inverse_mdct,
    inverse_stft,
    inverse_stft_window_fn,
    linear_to_mel_weight_matrix,
    mdct,
    mfccs_from_log_mel_spectrograms,
    overlap_and_add,
    stft,
    vorbis_window,
)
from sparkflow.spectral import *
