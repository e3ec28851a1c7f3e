"""An optimizer around another one, which has the slots."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.graph import Operation
from sparkflow.train.optimizer import GradsAndVars, Optimizer


class WrappedOptimizer(Optimizer):
    """Hands on all that it is asked; a subclass says what it does besides."""

    def __init__(self, optimizer: Optimizer, name: str):
        super().__init__(False, name)
        self._opt = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> GradsAndVars:
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Operation:
        return self._opt.apply_gradients(*args, **kwargs)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self) -> list[str]:
        return self._opt.get_slot_names()

    def variables(self) -> list[Any]:
        return self._opt.variables()
