"""tf.sparse."""

from sparkflow.framework.sparse_tensor import SparseTensor
from sparkflow.ops.accumulators import SparseConditionalAccumulator
from sparkflow.ops.counts_sparse import sparse_bincount as bincount
from sparkflow.ops.feature import sparse_cross as cross
from sparkflow.ops.feature import sparse_cross_hashed as cross_hashed
from sparkflow.ops.segments import sparse_segment_mean as segment_mean
from sparkflow.ops.segments import sparse_segment_sqrt_n as segment_sqrt_n
from sparkflow.ops.segments import sparse_segment_sum as segment_sum
from sparkflow.ops.sparse import sparse_concat as concat
from sparkflow.ops.sparse import sparse_fill_empty_rows as fill_empty_rows
from sparkflow.ops.sparse import sparse_mask as mask
from sparkflow.ops.sparse import sparse_merge as merge
from sparkflow.ops.sparse import sparse_placeholder as placeholder
from sparkflow.ops.sparse import sparse_reorder as reorder
from sparkflow.ops.sparse import sparse_reset_shape as reset_shape
from sparkflow.ops.sparse import sparse_reshape as reshape
from sparkflow.ops.sparse import sparse_retain as retain
from sparkflow.ops.sparse import sparse_slice as slice
from sparkflow.ops.sparse import sparse_split as split
from sparkflow.ops.sparse import sparse_tensor_to_dense as to_dense
from sparkflow.ops.sparse import sparse_to_indicator as to_indicator
from sparkflow.ops.sparse import sparse_transpose as transpose
from sparkflow.ops.sparse_made import from_dense
from sparkflow.ops.sparse_made import sparse_expand_dims as expand_dims
from sparkflow.ops.sparse_made import sparse_eye as eye
from sparkflow.ops.sparse_math import sparse_add as add
from sparkflow.ops.sparse_math import sparse_maximum as maximum
from sparkflow.ops.sparse_math import sparse_minimum as minimum
from sparkflow.ops.sparse_math import sparse_reduce_max as reduce_max
from sparkflow.ops.sparse_math import sparse_reduce_max_sparse as reduce_max_sparse
from sparkflow.ops.sparse_math import sparse_reduce_sum as reduce_sum
from sparkflow.ops.sparse_math import sparse_reduce_sum_sparse as reduce_sum_sparse
from sparkflow.ops.sparse_math import sparse_softmax as softmax
from sparkflow.ops.sparse_math import sparse_tensor_dense_matmul as matmul
from sparkflow.ops.sparse_math import sparse_tensor_dense_matmul as sparse_dense_matmul
