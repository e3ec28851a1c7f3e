"""tf.contrib.layers: layers that name their variables weights and biases, initializers and regularizers."""

from sparkflow.contrib.layers import utils
from sparkflow.contrib.layers.batch_norm import batch_norm
from sparkflow.contrib.layers.columns import (
    bucketized_column,
    create_feature_spec_for_parsing,
    crossed_column,
    embedding_column,
    input_from_feature_columns,
    one_hot_column,
    parse_feature_columns_from_examples,
    real_valued_column,
    shared_embedding_columns,
    sparse_column_with_hash_bucket,
    sparse_column_with_integerized_feature,
    sparse_column_with_keys,
    sparse_column_with_vocabulary_file,
    weighted_sparse_column,
    weighted_sum_from_feature_columns,
)
from sparkflow.contrib.layers.embeddings import bow_encoder, embedding_lookup_unique, safe_embedding_lookup_sparse
from sparkflow.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from sparkflow.contrib.layers.layers import (
    avg_pool2d,
    avg_pool3d,
    bias_add,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    convolution,
    dropout,
    elu,
    embed_sequence,
    flatten,
    fully_connected,
    layer_norm,
    linear,
    max_pool2d,
    max_pool3d,
    one_hot_encoding,
    relu,
    relu6,
    repeat,
    separable_conv2d,
    softmax,
    stack,
    unit_norm,
)
from sparkflow.contrib.layers.more import (
    dense_to_sparse,
    images_to_sequence,
    legacy_fully_connected,
    legacy_linear,
    legacy_relu,
    poincare_normalize,
    pool,
    scale_gradient,
    sequence_to_images,
    spatial_softmax,
)
from sparkflow.contrib.layers.norms import (
    conv2d_in_plane,
    group_norm,
    instance_norm,
    maxout,
    summarize_activation,
    summarize_activations,
    summarize_collection,
    summarize_tensor,
    summarize_tensors,
)
from sparkflow.contrib.layers.optimizing import (
    OPTIMIZER_CLS_NAMES,
    OPTIMIZER_SUMMARIES,
    adaptive_clipping_fn,
    optimize_loss,
)
from sparkflow.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

convolution2d = conv2d
convolution1d, convolution3d, convolution2d_transpose = conv1d, conv3d, conv2d_transpose
convolution3d_transpose = conv3d_transpose
separable_convolution2d = separable_conv2d
convolution2d_in_plane = conv2d_in_plane
