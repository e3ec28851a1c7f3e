"""tf.estimator: model functions, what runs them in one process, and what feeds them.

`tf.spark`, `tf.dask` and `tf.local` train the same model functions in a cluster.
"""

from sparkflow.estimator import inputs
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.spec import EstimatorSpec, ModeKeys

__all__ = ["Estimator", "EstimatorSpec", "ModeKeys", "RunConfig", "inputs"]
