"""tf.contrib.image: images turned, moved, or seen from elsewhere."""

from sparkflow.ops.image_transforms import (
    angles_to_projective_transforms,
    compose_transforms,
    flat_transforms_to_matrices,
    matrices_to_flat_transforms,
    rotate,
    transform,
    translate,
    translations_to_projective_transforms,
)
