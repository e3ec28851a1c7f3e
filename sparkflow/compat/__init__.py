"""tf.compat: `import sparkflow.compat.v1 as tf` is `import sparkflow as tf`."""

from sparkflow.compat import v1
