"""tensorflow.contrib.<part>.python: the files in which TensorFlow kept what its parts of contrib have."""

from __future__ import annotations

from sparkflow.python import module

# part of contrib -> its files below `python`
FILES = {
    "crf": "ops.crf",
    "data": "ops.batching ops.dataset_ops ops.interleave_ops ops.grouping ops.shuffle_ops ops.sliding",
    "distribute": "cross_tower_ops mirrored_strategy",
    "distributions": "ops.distribution_util",
    "eager": "tfe",
    "estimator": "estimator estimator.early_stopping estimator.extenders estimator.head estimator.multi_head",
    "feature_column": "feature_column feature_column.sequence_feature_column",
    "factorization": "ops ops.clustering_ops ops.factorization_ops ops.kmeans",
    "hooks": "training",
    "image": "ops ops.image_ops",
    "signal": "ops ops.mel_ops ops.mfcc_ops ops.reconstruction_ops ops.shape_ops ops.spectral_ops ops.window_ops",
    "stateless": "ops",
    "framework": "framework framework.checkpoint_utils framework.tensor_util ops ops.arg_scope ops.variables",
    "layers": "layers layers.embedding_ops layers.encoders layers.feature_column layers.feature_column_ops "
    "layers.initializers layers.layers layers.normalization layers.optimizers layers.regularizers layers.summaries "
    "layers.utils ops.sparse_ops",
    "learn": "learn learn.datasets learn.datasets.base learn.datasets.mnist learn.estimators "
    "learn.basic_session_run_hooks learn.estimators.constants learn.estimators.dnn "
    "learn.estimators.dnn_linear_combined learn.estimators.estimator learn.estimators.linear "
    "learn.estimators.model_fn learn.estimators.prediction_key learn.estimators.run_config learn.experiment "
    "learn.learn_io learn.learn_io.dask_io learn.learn_io.generator_io learn.learn_io.graph_io "
    "learn.learn_io.numpy_io learn.learn_io.pandas_io learn.preprocessing.categorical_vocabulary "
    "learn.preprocessing.text learn.session_run_hook learn.learn_runner learn.metric_spec learn.monitors "
    "learn.preprocessing learn.utils learn.utils.input_fn_utils learn.utils.saved_model_export_utils",
    "legacy_seq2seq": "ops.seq2seq",
    "lookup": "lookup lookup.lookup_ops",
    "losses": "losses losses.loss_ops metric_learning metric_learning.metric_loss_ops",
    "metrics": "metrics ops.metric_ops",
    "opt": "training training.adamax training.addsign training.delay_compensated_gradient_descent "
    "training.drop_stale_gradient_optimizer "
    "training.elastic_average_optimizer training.external_optimizer training.lars_optimizer "
    "training.lazy_adam_optimizer training.model_average_optimizer training.moving_average_optimizer "
    "training.multitask_optimizer_wrapper training.nadam_optimizer training.powersign training.sign_decay "
    "training.variable_clipping_optimizer training.weight_decay_optimizers",
    "rnn": "ops.core_rnn ops.core_rnn_cell ops.core_rnn_cell_impl ops.fused_rnn_cell ops.gru_ops ops.lstm_ops ops.rnn "
    "ops.rnn_cell",
    "seq2seq": "ops.attention_wrapper ops.basic_decoder ops.beam_search_decoder ops.beam_search_ops ops.decoder "
    "ops.helper ops.loss",
    "slim": "slim slim.data slim.data.data_decoder slim.evaluation slim.learning",
    "tpu": "ops.tpu_ops tpu tpu.tpu_config tpu.tpu_estimator tpu.tpu_function tpu.tpu_optimizer",
    "training": "training training.bucket_ops training.evaluation training.hparam training.training",
}  # fmt: skip
_ELSEWHERE = {
    "seq2seq": ("sparkflow.contrib.internals",),
    "learn": (
        "sparkflow.contrib.learn.learn_runner",
        "sparkflow.contrib.learn.learn_io",
        "sparkflow.contrib.learn.monitors",
        "sparkflow.contrib.learn.utils.input_fn_utils",
        "sparkflow.contrib.learn.utils.saved_model_export_utils",
        "sparkflow.contrib.learn.preprocessing",
        "sparkflow.contrib.learn.datasets.mnist",
        "sparkflow.contrib.learn.datasets.base",
        "sparkflow.train",
    ),
    "losses": ("sparkflow.contrib.metric_learning",),
    "slim": ("sparkflow.contrib.slim.data_decoder",),
    "tpu": ("sparkflow.tpu",),
    "rnn": ("sparkflow.nn", "sparkflow.rnn_cell", "sparkflow.ops.rnn_cell", "sparkflow.contrib.linear"),
    "legacy_seq2seq": ("sparkflow.contrib.legacy_seq2seq.decoders",),
    "layers": ("sparkflow.contrib.layers.layers", "sparkflow.contrib.layers.utils", "sparkflow.nn"),
    "framework": ("sparkflow.train", "sparkflow"),
}
# part of contrib -> files of it that are not below `python`, and what has their names
_KERAS = ("activations", "backend", "callbacks", "constraints", "datasets", "initializers", "layers", "losses",
          "metrics", "models", "optimizers", "preprocessing", "regularizers", "utils")  # fmt: skip
_BESIDE = {
    "keras": {
        f"{folder}.keras{name}": f"sparkflow.keras{name}"
        for folder in ("api", "python")
        for name in ("", *(f".{part}" for part in _KERAS))
    },
    "lookup": {"lookup_ops": "sparkflow.contrib.lookup"},
}


def install(part: str) -> None:
    """Let tensorflow.contrib.<part>.python, and files beside it, be imported; the part itself has been."""
    root = f"sparkflow.contrib.{part}"
    for path in FILES.get(part, "").split():
        module(root, f"python.{path}", (root, *_ELSEWHERE.get(part, ())))
    for path, home in _BESIDE.get(part, {}).items():
        module(root, path, (home,))
