"""tf.contrib.learn.utils: what a served model is asked with, and when it is exported."""

from sparkflow.contrib.learn.experiment import make_export_strategy
from sparkflow.contrib.learn.model_fn import InputFnOps
from sparkflow.contrib.learn.utils import input_fn_utils, saved_model_export_utils
