"""tf.manip: names of tf, gathered."""

from sparkflow.ops.array import reshape, reverse, tile
from sparkflow.ops.array_blocks import batch_to_space_nd, roll, space_to_batch_nd
from sparkflow.ops.array_slice import gather_nd, scatter_nd
