"""tf.data.Options and its parts. They say how fast, not what: whatever is set, the elements are the same."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any

SHARD_HINT = -1


class AutoShardPolicy(IntEnum):
    OFF, AUTO, FILE, DATA, HINT = -1, 0, 1, 2, 3


class ExternalStatePolicy(Enum):
    WARN, IGNORE, FAIL = 0, 1, 2


class AutotuneAlgorithm(Enum):
    DEFAULT, HILL_CLIMB, GRADIENT_DESCENT, MAX_PARALLELISM, STAGE_BASED = range(5)


class _Settings:
    """Named settings, None until they are set. Raises AttributeError on a name that is none of them."""

    _NAMES: tuple[str, ...] = ()

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._NAMES:
            kind = type(self).__name__
            raise AttributeError(f"Cannot set the property {name} on {kind}; it has {sorted(self._NAMES)}")
        object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in type(self)._NAMES:
            return None
        raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {sorted(self._NAMES)}")

    def _set(self) -> dict[str, Any]:
        return dict(vars(self))

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self._set() == other._set()

    __hash__ = None  # type: ignore[assignment]


class OptimizationOptions(_Settings):
    _NAMES = (
        *("apply_default_optimizations", "filter_fusion", "filter_parallelization", "inject_prefetch"),
        *("map_and_batch_fusion", "map_and_filter_fusion", "map_fusion", "map_parallelization", "noop_elimination"),
        *("parallel_batch", "seq_interleave_prefetch", "shuffle_and_repeat_fusion", "autotune", "autotune_buffers"),
        *("autotune_cpu_budget", "map_vectorization", "hoist_random_uniform"),
    )


class ThreadingOptions(_Settings):
    _NAMES = ("max_intra_op_parallelism", "private_threadpool_size")


class AutotuneOptions(_Settings):
    _NAMES = (
        *("autotune_algorithm", "cpu_budget", "enabled", "initial_parallelism", "min_parallelism", "ram_budget"),
        "autotune_buffers",
    )


class DistributeOptions(_Settings):
    """How strategies share a dataset out. Here its programs do, by Dataset.shard."""

    _NAMES = ("auto_shard_policy", "num_devices", "make_stateless", "auto_shard")

    def __init__(self) -> None:
        self.auto_shard_policy = AutoShardPolicy.AUTO


class ServiceOptions(_Settings):
    _NAMES = ("pinned",)


class Options(_Settings):
    """For Dataset.with_options."""

    _NAMES = (
        *("autotune", "dataset_name", "deterministic", "experimental_deterministic", "experimental_distribute"),
        *("experimental_external_state_policy", "experimental_optimization", "experimental_service"),
        *("experimental_slack", "experimental_symbolic_checkpoint", "experimental_threading", "threading"),
        *("experimental_warm_start", "framework_type", "experimental_stateful_whitelist"),
    )

    def __init__(self) -> None:
        self.autotune, self.experimental_optimization = AutotuneOptions(), OptimizationOptions()
        self.threading = self.experimental_threading = ThreadingOptions()
        self.experimental_distribute, self.experimental_service = DistributeOptions(), ServiceOptions()

    def merge(self, options: Options) -> Options:
        """These, and over them what the others set."""
        made = Options()
        for source in (self, options):
            for name, value in source._set().items():
                if isinstance(value, _Settings):
                    for inner, set_to in value._set().items():
                        setattr(getattr(made, name), inner, set_to)
                else:
                    setattr(made, name, value)
        return made
