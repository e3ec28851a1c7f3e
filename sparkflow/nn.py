"""tf.nn."""

from sparkflow import rnn_cell
from sparkflow.ops.embedding import embedding_lookup
from sparkflow.ops.math import sigmoid, tanh
from sparkflow.ops.nn import (
    batch_normalization,
    bias_add,
    dropout,
    elu,
    in_top_k,
    l2_loss,
    l2_normalize,
    leaky_relu,
    log_softmax,
    moments,
    relu,
    relu6,
    relu_layer,
    selu,
    softmax,
    softplus,
    softsign,
    top_k,
    xw_plus_b,
)
from sparkflow.ops.nn_loss import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from sparkflow.ops.rnn import bidirectional_dynamic_rnn, dynamic_rnn, static_bidirectional_rnn, static_rnn
