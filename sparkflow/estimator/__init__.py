"""tf.estimator: model functions, what runs them in one process, and what feeds them.

`tf.spark`, `tf.dask` and `tf.local` train the same model functions in a cluster.
"""

from sparkflow.estimator import experimental, export, inputs, tpu
from sparkflow.estimator.canned import (
    BaselineClassifier,
    BaselineEstimator,
    BaselineRegressor,
    DNNClassifier,
    DNNEstimator,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearEstimator,
    LinearRegressor,
)
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.exporting import BestExporter, Exporter, FinalExporter, LatestExporter
from sparkflow.estimator.extenders import add_metrics, classifier_parse_example_spec, regressor_parse_example_spec
from sparkflow.estimator.heads import BinaryClassHead, Head, MultiClassHead, RegressionHead
from sparkflow.estimator.multi_heads import LogisticRegressionHead, MultiHead, MultiLabelHead, PoissonRegressionHead
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys
from sparkflow.estimator.training import EvalSpec, TrainSpec, train_and_evaluate
from sparkflow.estimator.warm_start import WarmStartSettings
from sparkflow.train import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
    ProfilerHook,
    SecondOrStepTimer,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    StepCounterHook,
    StopAtStepHook,
    SummarySaverHook,
    VocabInfo,
)
