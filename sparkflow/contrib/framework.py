"""tf.contrib.framework: what later became tf.train's."""

from sparkflow.train.training_util import (
    assert_global_step,
    create_global_step,
    get_global_step,
    get_or_create_global_step,
)

__all__ = ["assert_global_step", "create_global_step", "get_global_step", "get_or_create_global_step"]
