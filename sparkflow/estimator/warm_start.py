"""What an Estimator's first training begins with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkflow import train


class WarmStartSettings(NamedTuple):
    """The arguments of train.warm_start, which see: a checkpoint, which variables, new words, other names."""

    ckpt_to_initialize_from: str
    vars_to_warm_start: Any = ".*"
    var_name_to_vocab_info: Mapping[str, train.VocabInfo] | None = None
    var_name_to_prev_var_name: Mapping[str, str] | None = None


def settings_of(warm_start_from: Any) -> WarmStartSettings | None:
    """Those settings, or all trainable variables of a checkpoint, a folder with checkpoints or a SavedModel.

    Raises ValueError on anything else.
    """
    if warm_start_from is None or isinstance(warm_start_from, WarmStartSettings):
        return warm_start_from
    if not isinstance(warm_start_from, (str, bytes, os.PathLike)):
        raise ValueError(f"warm_start_from must be a path or a WarmStartSettings, got {warm_start_from!r}")
    path = os.fsdecode(warm_start_from)
    exported = os.path.join(path, "variables", "variables")
    return WarmStartSettings(exported if os.path.exists(exported + ".index") else path)
