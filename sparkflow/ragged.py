"""tf.ragged: rows of different lengths."""

from sparkflow.ops.ragged import RaggedTensor, RaggedTensorValue, segment_ids_to_row_splits
from sparkflow.ops.ragged_cross import ragged_cross as cross
from sparkflow.ops.ragged_cross import ragged_cross_hashed as cross_hashed
from sparkflow.ops.ragged_functions import (
    boolean_mask,
    constant,
    constant_value,
    map_flat_values,
    placeholder,
    row_splits_to_segment_ids,
    stack,
)
from sparkflow.ops.ragged_functions import ragged_range as range
from sparkflow.ops.ragged_partitions import stack_dynamic_partitions
from sparkflow.session.fetches import register_composite

register_composite(RaggedTensor, lambda r: (r.values, r.row_splits), lambda found: RaggedTensorValue(*found))
