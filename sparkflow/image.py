"""tf.image: resizing."""

from sparkflow.ops.image import (
    ResizeMethod,
    resize,
    resize_area,
    resize_bicubic,
    resize_bilinear,
    resize_image_with_pad,
    resize_images,
    resize_nearest_neighbor,
)
from sparkflow.ops.image_boxes import (
    combined_non_max_suppression,
    crop_and_resize,
    draw_bounding_boxes,
    extract_glimpse,
    non_max_suppression,
    non_max_suppression_overlaps,
    non_max_suppression_padded,
    non_max_suppression_with_scores,
    sample_distorted_bounding_box,
)
from sparkflow.ops.image_crops import (
    central_crop,
    crop_to_bounding_box,
    pad_to_bounding_box,
    random_crop,
    resize_image_with_crop_or_pad,
)
from sparkflow.ops.image_crops import resize_image_with_crop_or_pad as resize_with_crop_or_pad
from sparkflow.ops.image_measures import (
    image_gradients,
    psnr,
    rgb_to_yiq,
    rgb_to_yuv,
    sobel_edges,
    ssim,
    ssim_multiscale,
    total_variation,
    yiq_to_rgb,
    yuv_to_rgb,
)
from sparkflow.ops.image_more import (
    adjust_brightness,
    adjust_contrast,
    adjust_gamma,
    adjust_hue,
    adjust_saturation,
    convert_image_dtype,
    decode_and_crop_jpeg,
    decode_bmp,
    decode_gif,
    decode_image,
    decode_jpeg,
    decode_png,
    encode_jpeg,
    encode_png,
    extract_jpeg_shape,
    flip_left_right,
    flip_up_down,
    grayscale_to_rgb,
    hsv_to_rgb,
    is_jpeg,
    per_image_standardization,
    random_brightness,
    random_contrast,
    random_flip_left_right,
    random_flip_up_down,
    random_hue,
    random_saturation,
    rgb_to_grayscale,
    rgb_to_hsv,
    rot90,
    transpose_image,
)
from sparkflow.ops.image_more import transpose_image as transpose
from sparkflow.ops.image_quality import adjust_jpeg_quality, random_jpeg_quality
from sparkflow.ops.patches import extract_image_patches, extract_patches
