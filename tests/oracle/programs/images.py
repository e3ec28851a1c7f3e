"""Public functions of tf.image."""

from __future__ import annotations

import numpy as np

from tests.oracle.compare import Tolerance
from tests.oracle.programs.api import F, expression

_RNG = np.random.default_rng(6)
_SUMS = Tolerance(1024, scaled=True)


def _image(dtype: str, *shape: int) -> np.ndarray:
    return (_RNG.random(shape) * (255 if dtype == "uint8" else 1)).astype(dtype)


_X, _Y = _image(F, 2, 16, 18, 3), _image(F, 2, 16, 18, 3)
expression(
    "colours-of-brightness",
    [_X[0]],
    lambda tf, x: [
        f(tf.ensure_shape(x, [None, None, 3]))
        for f in (tf.image.rgb_to_yiq, tf.image.yiq_to_rgb, tf.image.rgb_to_yuv, tf.image.yuv_to_rgb)
    ],
    True,
)
expression(
    "edges",
    [_X],
    lambda tf, x: [
        *tf.image.image_gradients(tf.ensure_shape(x, [2, 16, 18, 3])),
        tf.image.sobel_edges(tf.ensure_shape(x, [None, None, None, 3])),
        tf.image.total_variation(tf.ensure_shape(x, [2, None, None, 3])),
        tf.image.total_variation(tf.ensure_shape(x, [2, None, None, 3])[0]),
    ],
    True,
)
expression(
    "alike",
    [_X, _Y],
    lambda tf, x, y: [
        tf.image.psnr(x, y, 1.0),
        tf.image.ssim(x, y, 1.0),
        tf.image.ssim(x, x * 0.9, 1.0, filter_size=5, filter_sigma=1.0),
    ],
    True,
    tolerance=Tolerance(4096, scaled=True),
)
expression(
    "alike-bytes",
    [_image("uint8", 16, 18, 1), _image("uint8", 16, 18, 1)],
    lambda tf, x, y: [tf.image.psnr(x, y, 255), tf.image.ssim(x, y, 255), tf.image.ssim(x, x, 255)],
    tolerance=Tolerance(4096, floor=1.0),
)
_SMOOTH = np.add.outer(np.linspace(0, 0.7, 37), np.linspace(0, 0.3, 40))[None, :, :, None].astype(F)
expression(
    "alike-scales",
    [_SMOOTH, (_SMOOTH * 0.9 + _RNG.random(_SMOOTH.shape) * 0.05).astype(F)],
    lambda tf, x, y: tf.image.ssim_multiscale(x, y, 1.0, power_factors=(0.5, 0.3, 0.2), filter_size=7),
    True,
    tolerance=Tolerance(65536, scaled=True),
)
expression(
    "sizes",
    [_X],
    lambda tf, x: [
        f
        for x in [tf.ensure_shape(x, [None, None, None, 3])]
        for f in [
            *(tf.image.resize_images(x, [9, 20], method) for method in range(4)),
            tf.image.resize_images(x, [20, 9], tf.image.ResizeMethod.BICUBIC, align_corners=True),
            tf.image.resize_images(x, [9, 40], preserve_aspect_ratio=True),
            tf.image.resize_images(x[0], [40, 9], preserve_aspect_ratio=True),
            tf.image.resize_image_with_pad(x, 20, 40),
            tf.image.resize_image_with_pad(x, 10, 9, tf.image.ResizeMethod.NEAREST_NEIGHBOR),
            tf.image.transpose(x),
        ]
    ],
    tolerance=_SUMS,
)
expression(
    "patches",
    [_X[:, :6, :5, :2]],
    lambda tf, x: [
        f
        for x in [tf.ensure_shape(x, [2, 6, 5, 2])]
        for f in [
            tf.extract_image_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], "SAME"),
            tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 2, 1], "VALID"),
            tf.extract_volume_patches(x[..., None], [1, 2, 3, 1, 1], [1, 2, 1, 1, 1], "SAME"),
            tf.nn.dilation2d(x, tf.ones([2, 3, 2]), [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
            tf.nn.erosion2d(x, tf.ones([2, 3, 2]), [1, 1, 1, 1], [1, 1, 1, 1], "SAME"),
            tf.nn.fractional_avg_pool(x[:, :, :4], [1, 2, 2, 1], True)[0],
        ]
    ],
    True,
    tolerance=_SUMS,
)


_TIED = np.array([[i, j, k] for i in (0, 0.25, 1) for j in (0, 0.25, 1) for k in (0, 0.25, 1)], F)
expression(
    "gradient-of-hues",
    [np.concatenate([_RNG.random((40, 3)).astype(F), _TIED])],
    lambda tf, x: [tf.gradients(tf.image.rgb_to_hsv(x)[:, i], x)[0] for i in range(3)],
    tolerance=Tolerance(4096, scaled=True),
)
_SEEN = np.array([[0.8, -0.6, 1.7, 0.6, 0.8, -0.9, 0, 0], [1.3, 0.2, -3.1, -0.1, 1.7, -4.3, 0.02, -0.03]], np.float32)
expression(
    "transformed",  # whose gradient TensorFlow has where ranks are known alone
    [_X],
    lambda tf, x: [
        op(
            **named,
            images=tf.ensure_shape(x, [2, 16, 18, 3]),
            transforms=_SEEN,
            output_shape=[12, 9],
            interpolation=how,
        )
        for how in ("BILINEAR", "NEAREST")
        for op, named in (
            (tf.raw_ops.ImageProjectiveTransformV2, {}),
            (tf.raw_ops.ImageProjectiveTransformV3, {"fill_value": 0.5}),
        )
    ],
    True,
    tolerance=Tolerance(4096, scaled=True),
)
