"""tf.nn."""

from types import SimpleNamespace as _SimpleNamespace

from sparkflow import rnn_cell
from sparkflow.losses.averaged import compute_average_loss, scale_regularization_loss
from sparkflow.ops.array_blocks import depth_to_space, space_to_batch, space_to_depth
from sparkflow.ops.candidates import (
    all_candidate_sampler,
    compute_accidental_hits,
    fixed_unigram_candidate_sampler,
    learned_unigram_candidate_sampler,
    log_poisson_loss,
    log_uniform_candidate_sampler,
    nce_loss,
    sampled_softmax_loss,
    uniform_candidate_sampler,
    zero_fraction,
)
from sparkflow.ops.counts import nth_element
from sparkflow.ops.ctc import (
    collapse_repeated,
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_v2,
    ctc_greedy_decoder,
    ctc_loss,
    ctc_loss_v2,
)
from sparkflow.ops.embedding import embedding_lookup
from sparkflow.ops.embedding_sparse import embedding_lookup_sparse, safe_embedding_lookup_sparse
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
from sparkflow.ops.nn_conv import (
    atrous_conv2d,
    atrous_conv2d_transpose,
    conv1d,
    conv1d_transpose,
    conv2d,
    conv2d_backprop_filter,
    conv2d_backprop_input,
    conv2d_transpose,
    conv3d,
    conv3d_backprop_filter,
    conv3d_transpose,
    convolution,
)
from sparkflow.ops.nn_conv_depthwise import (
    depthwise_conv2d,
    depthwise_conv2d_native,
    depthwise_conv2d_native_backprop_filter,
    depthwise_conv2d_native_backprop_input,
    separable_conv2d,
)
from sparkflow.ops.nn_late import approx_max_k, approx_min_k, conv_transpose, ctc_unique_labels
from sparkflow.ops.nn_late import general_dropout as _general_dropout
from sparkflow.ops.nn_late import stateless_dropout as _stateless_dropout
from sparkflow.ops.nn_loss import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits_v2,
    sparse_softmax_cross_entropy_with_logits,
    weighted_cross_entropy_with_logits,
)
from sparkflow.ops.nn_more import normalize_moments, sufficient_statistics, swish
from sparkflow.ops.nn_norm import (
    batch_norm_with_global_normalization,
    crelu,
    fused_batch_norm,
    local_response_normalization,
    lrn,
    weighted_moments,
)
from sparkflow.ops.nn_pool import (
    avg_pool,
    avg_pool1d,
    avg_pool3d,
    avg_pool_v2,
    max_pool,
    max_pool1d,
    max_pool2d,
    max_pool3d,
    max_pool_v2,
    max_pool_with_argmax,
    pool,
)
from sparkflow.ops.nn_spread import with_space_to_batch
from sparkflow.ops.patches import dilation2d, erosion2d, fractional_avg_pool, fractional_max_pool
from sparkflow.ops.quantized import quantized_relu_x
from sparkflow.ops.rnn import (
    bidirectional_dynamic_rnn,
    dynamic_rnn,
    static_bidirectional_rnn,
    static_rnn,
    static_state_saving_rnn,
)
from sparkflow.ops.rnn_raw import raw_rnn

avg_pool2d = avg_pool
silu = swish
depthwise_conv2d_backprop_filter = depthwise_conv2d_native_backprop_filter
depthwise_conv2d_backprop_input = depthwise_conv2d_native_backprop_input
experimental = _SimpleNamespace(general_dropout=_general_dropout, stateless_dropout=_stateless_dropout)
