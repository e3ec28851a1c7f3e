"""tf.metrics: (value, update_op) pairs over local variables; run the initializer of local variables first."""

from sparkflow.metrics.at_k import (
    average_precision_at_k,
    precision_at_k,
    precision_at_top_k,
    recall_at_k,
    recall_at_top_k,
    sparse_average_precision_at_k,
    sparse_precision_at_k,
)
from sparkflow.metrics.confusion import (
    false_negatives,
    false_negatives_at_thresholds,
    false_positives,
    false_positives_at_thresholds,
    precision,
    precision_at_thresholds,
    recall,
    recall_at_thresholds,
    true_negatives,
    true_negatives_at_thresholds,
    true_positives,
    true_positives_at_thresholds,
)
from sparkflow.metrics.curves import auc
from sparkflow.metrics.means import (
    accuracy,
    mean,
    mean_absolute_error,
    mean_cosine_distance,
    mean_relative_error,
    mean_squared_error,
    mean_tensor,
    percentage_below,
    root_mean_squared_error,
)
from sparkflow.metrics.per_class import mean_iou, mean_per_class_accuracy
from sparkflow.metrics.trade_offs import sensitivity_at_specificity, specificity_at_sensitivity
