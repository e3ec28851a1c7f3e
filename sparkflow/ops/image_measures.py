"""How alike two images are, edges, and colours whose brightness is a channel of its own.

Source: Wang et al. 2004 (ssim), 2003 (its scales); ITU-R BT.601 (yuv), NTSC 1953 (yiq).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow.framework import shapes
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_join, linalg, math, math_reduce, rules
from sparkflow.ops.checks import assert_greater_equal
from sparkflow.ops.image_more import convert_image_dtype
from sparkflow.ops.nn import relu
from sparkflow.ops.nn_conv_depthwise import depthwise_conv2d
from sparkflow.ops.nn_pool import avg_pool
from sparkflow_runtime.wire import dtypes

# ---------------------------------------------------------------------- colours

_YIQ = [
    [0.299, 0.59590059, 0.2115],
    [0.587, -0.27455667, -0.52273617],
    [0.114, -0.32134392, 0.31119955],
]
_FROM_YIQ = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]


def _colours(name: str, table: Sequence[Sequence[float]], doc: str) -> Callable[[Any], Tensor]:
    def build(images: Any) -> Tensor:
        images = convert_to_tensor(images, name="images")
        matrix = convert_to_tensor(table, images.dtype.base_dtype, "kernel")
        rank = rules.rank_of(images)
        if rank is None:
            raise ValueError(f"{name}: the rank of images must be known, got {images}")
        return linalg.tensordot(images, matrix, [[rank - 1], [0]])

    build.__name__ = build.__qualname__ = name
    build.__doc__ = doc
    return build


rgb_to_yiq = _colours("rgb_to_yiq", _YIQ, "Brightness and two chroma values (NTSC) of RGB images [..., 3] of floats.")
yiq_to_rgb = _colours("yiq_to_rgb", _FROM_YIQ, "RGB images of brightness and chroma (NTSC).")
rgb_to_yuv = _colours("rgb_to_yuv", _YUV, "Brightness and two chroma values (PAL) of RGB images [..., 3] of floats.")
yuv_to_rgb = _colours("yuv_to_rgb", _FROM_YUV, "RGB images of brightness and chroma (PAL).")

# ---------------------------------------------------------------------- edges


def _rows(x: Tensor, first: int, last: int | None) -> Tensor:
    return x[:, first:last]


def _columns(x: Tensor, first: int, last: int | None) -> Tensor:
    return x[:, :, first:last]


def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """(dy, dx): the differences of each cell of [batch, height, width, channels] and the one below, and the one to the
    right; 0 at the last ones. Raises ValueError on another rank."""
    image = convert_to_tensor(image)
    if rules.rank_of(image) != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], got shape {shapes.show(image._shape)}"
        )
    down = math.subtract(_rows(image, 1, None), _rows(image, 0, -1))
    across = math.subtract(_columns(image, 1, None), _columns(image, 0, -1))
    return array.pad(down, [[0, 0], [0, 1], [0, 0], [0, 0]]), array.pad(across, [[0, 0], [0, 0], [0, 1], [0, 0]])


def sobel_edges(image: Any) -> Tensor:
    """[batch, height, width, channels, 2]: how much each cell's surroundings rise downwards and to the right."""
    image = convert_to_tensor(image)
    dims = image._shape
    if dims is None or dims[-1] is None:
        raise ValueError(f"sobel_edges: the number of channels must be known, got shape {shapes.show(dims)}")
    down = np.outer([-1, 0, 1], [1, 2, 1])
    both = np.stack([down, down.T], -1)[:, :, None]
    taps = convert_to_tensor(np.tile(both, (1, 1, dims[-1], 1)), image.dtype.base_dtype)
    padded = array.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    found = depthwise_conv2d(padded, taps, [1, 1, 1, 1], "VALID")
    out = array.reshape(found, array_join.concat([array.shape(image), [2]], 0))
    out.set_shape((*dims, 2))
    return out


def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of the sizes of all differences between neighbours of one image [h, w, c], or of each of a batch."""
    with get_default_graph().name_scope(name or "total_variation"):
        images = convert_to_tensor(images)
        rank = rules.rank_of(images)
        if rank not in (3, 4):
            raise ValueError(f"'images' must be either 3 or 4-dimensional, got shape {shapes.show(images._shape)}")
        batch = images if rank == 4 else array.expand_dims(images, 0)
        axes = [1, 2, 3] if rank == 4 else None
        down = math.subtract(_rows(batch, 1, None), _rows(batch, 0, -1))
        across = math.subtract(_columns(batch, 1, None), _columns(batch, 0, -1))
        return math.add(math_reduce.reduce_sum(math.abs(down), axes), math_reduce.reduce_sum(math.abs(across), axes))


# ---------------------------------------------------------------------- alike


def _floats(a: Any, b: Any, largest: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Both images and their largest value, all as float32 on one scale."""
    a, b = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
    top = convert_image_dtype(math.cast(largest, a.dtype), dtypes.float32)
    return convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32), top


def _alike(a: Tensor, b: Tensor) -> None:
    """Raises ValueError where the static shapes differ in height, width or channels."""
    if a._shape is not None and b._shape is not None and not shapes.compatible(a._shape[-3:], b._shape[-3:]):
        raise ValueError(f"Shapes {shapes.show(a._shape)} and {shapes.show(b._shape)} are incompatible.")


def psnr(a: Any, b: Any, max_val: Any, name: str | None = None) -> Tensor:
    """10 log10(max_val^2 / mean((a - b)^2)) of images [..., h, w, c]: how strong the signal is against the noise."""
    with get_default_graph().name_scope(name or "PSNR"):
        a, b, top = _floats(a, b, max_val)
        _alike(a, b)
        error = math_reduce.reduce_mean(math.squared_difference(a, b), [-3, -2, -1])
        ten = float(np.log(10.0))
        return math.subtract(
            math.multiply(math.log(top), np.float32(20 / ten)), math.multiply(math.log(error), np.float32(10 / ten))
        )


def _bell(size: int, sigma: float) -> np.ndarray:
    """[size, size, 1, 1] of weights that fall off as a normal distribution and add up to 1."""
    places = np.arange(size, dtype=np.float32) - (size - 1) / 2
    one = np.exp(-0.5 * np.square(places) / np.square(sigma))
    return (np.outer(one, one) / np.square(one.sum()))[:, :, None, None].astype(np.float32)


def _parts(a: Tensor, b: Tensor, top: Tensor, size: int, sigma: float, k1: float, k2: float) -> tuple[Tensor, Tensor]:
    """(ssim, its part of contrast and structure), for each image and channel."""
    channels = array.shape(a)[-1]
    taps = array.tile(convert_to_tensor(_bell(size, sigma)), array_join.stack([1, 1, channels, 1]))

    def mean(x: Tensor) -> Tensor:
        whole = array.shape(x)
        flat = array.reshape(x, array_join.concat([[-1], whole[-3:]], 0))
        found = depthwise_conv2d(flat, taps, [1, 1, 1, 1], "VALID")
        out = array.reshape(found, array_join.concat([whole[:-3], array.shape(found)[1:]], 0))
        out.set_shape(None if x._shape is None else (*x._shape[:-3], None, None, x._shape[-1]))
        return out

    c1, c2 = math.square(math.multiply(top, k1)), math.square(math.multiply(top, k2))
    of_a, of_b = mean(a), mean(b)
    product = math.multiply(math.multiply(of_a, of_b), 2.0)
    squares = math.add(math.square(of_a), math.square(of_b))
    light = math.divide(math.add(product, c1), math.add(squares, c1))
    both = math.multiply(mean(math.multiply(a, b)), 2.0)
    spread = mean(math.add(math.square(a), math.square(b)))
    structure = math.divide(math.add(math.subtract(both, product), c2), math.add(math.subtract(spread, squares), c2))
    return tuple(  # type: ignore[return-value]
        math_reduce.reduce_mean(x, [-3, -2]) for x in (math.multiply(light, structure), structure)
    )


def ssim(
    img1: Any, img2: Any, max_val: Any, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:  # fmt: skip
    """How alike images [..., h, w, c] are in light, contrast and structure, 1 for equal ones: the mean over windows of
    filter_size and over channels. Each side must be at least filter_size long."""
    with get_default_graph().name_scope("SSIM"):
        a, b, top = _floats(img1, img2, max_val)
        _alike(a, b)
        whole, _ = _parts(a, b, top, filter_size, filter_sigma, k1, k2)
        return math_reduce.reduce_mean(whole, [-1])


_FACTORS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim_multiscale(
    img1: Any, img2: Any, max_val: Any, power_factors: Sequence[float] = _FACTORS, filter_size: int = 11,
    filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
) -> Tensor:  # fmt: skip
    """As ssim, weighted over scales, each of half the size of the one before."""
    with get_default_graph().name_scope("MS-SSIM"):
        a, b, top = _floats(img1, img2, max_val)
        _alike(a, b)
        found, whole = [], a
        for scale in range(len(power_factors)):
            if scale:
                a, b = _halved(a), _halved(b)
            enough = assert_greater_equal(array.shape(a)[-3:-1], filter_size, message="too small for filter_size")
            with get_default_graph().control_dependencies([enough]):
                a, b = array.identity(a), array.identity(b)
            whole, structure = _parts(a, b, top, filter_size, filter_sigma, k1, k2)
            found.append(relu(structure))
        found[-1] = relu(whole)
        powers = [math.pow(x, float(p)) for x, p in zip(found, power_factors, strict=True)]
        return math_reduce.reduce_mean(math_reduce.reduce_prod(array_join.stack(powers, -1), [-1]), [-1])


def _halved(x: Tensor) -> Tensor:
    """The means of 2 x 2 cells; an odd last row or column is there twice."""
    whole = array.shape(x)
    flat = array.reshape(x, array_join.concat([[-1], whole[-3:]], 0))
    odd = math.floormod(whole[-3:-1], 2)
    pads = array_join.stack([[0, odd[0]], [0, odd[1]]])
    padded = array.pad(flat, array_join.concat([[[0, 0]], pads, [[0, 0]]], 0), mode="SYMMETRIC")
    small = avg_pool(padded, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
    out = array.reshape(small, array_join.concat([whole[:-3], array.shape(small)[1:]], 0))
    out.set_shape(None if x._shape is None else (*x._shape[:-3], None, None, x._shape[-1]))
    return out
