"""tf.contrib.layers: layers that name their variables weights and biases, initializers and regularizers."""

from sparkflow.contrib.layers import utils
from sparkflow.contrib.layers.initializers import (
    variance_scaling_initializer,
    xavier_initializer,
    xavier_initializer_conv2d,
)
from sparkflow.contrib.layers.layers import (
    avg_pool2d,
    avg_pool3d,
    batch_norm,
    bias_add,
    conv1d,
    conv2d,
    conv2d_transpose,
    conv3d,
    conv3d_transpose,
    dropout,
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
from sparkflow.contrib.layers.optimizing import optimize_loss
from sparkflow.contrib.layers.regularizers import (
    apply_regularization,
    l1_l2_regularizer,
    l1_regularizer,
    l2_regularizer,
    sum_regularizer,
)

convolution = convolution2d = conv2d
convolution1d, convolution3d, convolution2d_transpose = conv1d, conv3d, conv2d_transpose
convolution3d_transpose = conv3d_transpose
separable_convolution2d = separable_conv2d
convolution2d_in_plane = conv2d_in_plane
