"""tf.contrib.learn: estimators with fit, and models ready to be fitted."""

from sparkflow.contrib.learn import (
    datasets,
    estimators,
    learn_io,
    learn_runner,
    metric_spec,
    monitors,
    preprocessing,
    utils,
)
from sparkflow.contrib.learn import learn_io as io
from sparkflow.contrib.learn import model_fn as prediction_key
from sparkflow.contrib.learn.canned import (
    DNNClassifier,
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
    DNNRegressor,
    LinearClassifier,
    LinearRegressor,
    infer_real_valued_columns_from_input,
    infer_real_valued_columns_from_input_fn,
)
from sparkflow.contrib.learn.estimators import Estimator, SKCompat
from sparkflow.contrib.learn.experiment import Experiment, make_export_strategy
from sparkflow.contrib.learn.fitting import NotFittedError
from sparkflow.contrib.learn.learn_io import (
    extract_dask_data,
    extract_dask_labels,
    extract_pandas_data,
    extract_pandas_labels,
    extract_pandas_matrix,
    read_batch_examples,
    read_batch_features,
    read_batch_record_features,
)
from sparkflow.contrib.learn.metric_spec import MetricSpec
from sparkflow.contrib.learn.model_fn import InputFnOps, ModeKeys, ModelFnOps, PredictionKey, ProblemType
from sparkflow.contrib.learn.monitors import NanLossDuringTrainingError
from sparkflow.contrib.learn.run_config import RunConfig
