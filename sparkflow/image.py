"""tf.image: resizing."""

from sparkflow.ops.image import ResizeMethod, resize, resize_bilinear, resize_images, resize_nearest_neighbor
