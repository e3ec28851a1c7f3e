"""tf.compat: `import sparkflow.compat.v1 as tf` is `import sparkflow as tf`."""

from sparkflow.compat import v1
from sparkflow.texts import (
    as_bytes,
    as_str,
    as_str_any,
    as_text,
    bytes_or_text_types,
    complex_types,
    dimension_at_index,
    dimension_value,
    forward_compatible,
    integral_types,
    path_to_str,
    real_types,
)
