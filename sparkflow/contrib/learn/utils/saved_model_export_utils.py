"""tf.contrib.learn.utils.saved_model_export_utils: when a model is exported, and how it is asked."""

from __future__ import annotations

from typing import Any

from sparkflow.contrib.layers.columns import create_feature_spec_for_parsing
from sparkflow.contrib.learn.experiment import make_export_strategy
from sparkflow.contrib.learn.utils.input_fn_utils import build_parsing_serving_input_fn


def make_parsing_export_strategy(
    feature_columns: Any, default_output_alternative_key: str | None = None, assets_extra: Any = None,
    as_text: bool = False, exports_to_keep: int | None = 5, target_core: bool = False,
    strip_default_attrs: bool | None = None,
) -> Any:  # fmt: skip
    """As make_export_strategy, of serialized tf.train.Examples with the columns' features."""
    receive = build_parsing_serving_input_fn(create_feature_spec_for_parsing(feature_columns))
    return make_export_strategy(receive, default_output_alternative_key, assets_extra, as_text, exports_to_keep)
