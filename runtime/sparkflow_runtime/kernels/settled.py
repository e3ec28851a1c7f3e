"""Machine code that a process uses from its first step to its last, or never (compiled.py has the other kinds)."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock

from sparkflow_runtime.kernels.compiled import SWITCH, Native


class Settled(Native):
    """One whose sums are rounded otherwise than those it replaces. Whether a process uses it is settled when it is
    first asked for: where the machine code is not on disk by then, this process goes another way to its end, and leaves
    the code for later ones. So a graph's sums are rounded alike from its first step to its last."""

    def __init__(self, name: str, where: str, module: str, lanes: Callable[[], int], **arguments: int):
        """lanes: of the processor's vectors, 0 where it has none that the module can be made for."""
        super().__init__(name, where, module, **arguments)
        self._lanes, self._settled, self._settling = lanes, False, Lock()

    @property
    def kept(self) -> bool:  # type: ignore[override]
        return bool(self._lanes())

    def prepare(self) -> None:
        """Settle it, and have the code built where it is missing."""
        with self._settling:
            if self._settled or not self.kept:
                return
            mode = os.environ.get(SWITCH, "1")
            if mode == "wait":
                super().prepare()
            elif mode != "0":
                self.load()
            self._settled = True
        if not self.functions:
            super().prepare()

    def _use(self, codes: Sequence[bytes]) -> None:
        if not self._settled:
            super()._use(codes)
