"""tf.losses: weighted losses that are collected, to be added up by get_total_loss."""

from sparkflow.losses.collected import (
    add_loss,
    get_losses,
    get_regularization_loss,
    get_regularization_losses,
    get_total_loss,
)
from sparkflow.losses.cross_entropy import (
    sigmoid_cross_entropy,
    softmax_cross_entropy,
    sparse_softmax_cross_entropy,
)
from sparkflow.losses.elementwise import (
    absolute_difference,
    cosine_distance,
    hinge_loss,
    huber_loss,
    log_loss,
    mean_pairwise_squared_error,
    mean_squared_error,
)
from sparkflow.losses.weighted import Reduction, compute_weighted_loss
