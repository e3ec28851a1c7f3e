"""install_as_tensorflow: libraries that are written for TensorFlow 1 run on sparkflow as they are."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_THEIRS, _OURS, _V1 = "tensorflow", "sparkflow", "tensorflow.compat.v1."
_ESTIMATOR = "tensorflow_estimator"  # the package that TensorFlow 1.13 took its estimators from


def install_as_tensorflow() -> None:
    """From now on `import tensorflow`, and of its modules those that there are here, give sparkflow's; so does
    `import tensorflow_estimator`.

    To be called in each process, before the library is imported. Of another module Python says as ever that it cannot
    be found. Raises RuntimeError where TensorFlow itself has been imported.
    """
    found = sys.modules.get(_THEIRS)
    if found is not None and found is not sys.modules[_OURS]:
        where = getattr(found, "__file__", None)
        raise RuntimeError(f"TensorFlow itself is imported, from {where}: call install_as_tensorflow() first")
    if not any(isinstance(finder, _StandIn) for finder in sys.meta_path):
        sys.meta_path.insert(0, _StandIn())


class _StandIn(MetaPathFinder, Loader):
    """Finds our modules under TensorFlow's names; both names stand for one and the same module."""

    def __init__(self) -> None:
        self._found: dict[str, ModuleType] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] not in (_THEIRS, _ESTIMATOR):
            return None
        found = _module(fullname)
        if found is None:
            return None
        self._found[fullname] = found
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = self._found[spec.name]
        spec.loader_state = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        """It has run already, and keeps what it knows of itself."""
        made = module.__spec__
        if made is not None:
            module.__spec__ = made.loader_state


def _module(fullname: str) -> ModuleType | None:
    name = fullname.removeprefix(_V1) if fullname.startswith(_V1) else fullname.partition(".")[2]
    own = f"{_OURS}.{name}" if name else _OURS
    try:
        found = import_module(own)
        if name.startswith("contrib.") and name.count(".") == 1:
            import_module(f"{_OURS}.contrib.homes").install(name.partition(".")[2])
        return found
    except ModuleNotFoundError as error:
        if error.name is None or not f"{own}.".startswith(f"{error.name}."):
            raise  # what one of our modules needs is not there
    above, _, last = own.rpartition(".")
    named = getattr(sys.modules.get(above), last, None)  # a module by another name, such as nn.rnn_cell
    return named if isinstance(named, ModuleType) else None
