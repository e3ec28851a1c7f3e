"""tf.spectral and tf.signal: Fourier transforms."""

from sparkflow.ops.fourier import (
    fft,
    fft2d,
    fft3d,
    ifft,
    ifft2d,
    ifft3d,
    irfft,
    irfft2d,
    irfft3d,
    rfft,
    rfft2d,
    rfft3d,
)
from sparkflow.ops.signal import dct, idct
