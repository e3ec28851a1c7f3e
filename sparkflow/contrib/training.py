"""tf.contrib.training: sets of hyperparameters, train ops, evaluations of checkpoints."""

from __future__ import annotations

import json
from typing import Any

from sparkflow.contrib.evaluation import (
    StopAfterNEvalsHook,
    SummaryAtEndHook,
    checkpoints_iterator,
    evaluate_once,
    evaluate_repeatedly,
    get_or_create_eval_step,
)
from sparkflow.contrib.train_ops import (
    add_gradients_summaries,
    clip_gradient_norms,
    clip_gradient_norms_fn,
    create_train_op,
    multiply_gradients,
)
from sparkflow.contrib.train_ops import run_training as train
from sparkflow.train.checkpoint_watch import wait_for_new_checkpoint
from sparkflow.train.device_setter import GreedyLoadBalancingStrategy, byte_size_load_fn


class HParams:
    """Named values, as attributes; `parse` reads 'name=value,...', of the types that the values have."""

    def __init__(self, **values: Any):
        self._names: list[str] = []
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        if hasattr(self, name):
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        self._names.append(name)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        if name not in self._names:
            raise KeyError(f"There is no hyperparameter {name!r}; there are {', '.join(self._names)}")
        setattr(self, name, value)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key) if key in self._names else default

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._names}

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        for part in filter(None, values.split(",")):
            name, _, text = part.partition("=")
            kind = type(self.values()[name.strip()])
            value = text.strip().lower() in ("true", "1") if kind is bool else kind(text.strip())
            self.set_hparam(name.strip(), value)
        return self

    def to_json(self, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
        return json.dumps(self.values(), indent=indent, separators=separators, sort_keys=sort_keys)

    def __contains__(self, key: str) -> bool:
        return key in self._names

    def __repr__(self) -> str:
        return f"HParams({self.values()})"
