"""tf.sets."""

from sparkflow.ops.sets import set_difference, set_intersection, set_size, set_union

difference, intersection, size, union = set_difference, set_intersection, set_size, set_union
