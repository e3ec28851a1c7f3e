"""The GPUs that the sessions of a process may use, as their configuration has them."""

from __future__ import annotations

from sparkflow_runtime.kernels import memories
from sparkflow_runtime.wire.errors import UnimplementedError
from sparkflow_runtime.wire.protos import ConfigProto


def gpu_indices(config: ConfigProto) -> list[int]:
    """device_count["GPU"] says how many at most. Raises UnimplementedError where GPUs are to be renumbered."""
    wanted = config.device_count.get("GPU")
    if wanted == 0:
        return []
    found = list(range(memories.count()))
    listed = config.gpu_options.visible_device_list
    if found and listed and [int(n) for n in listed.split(",")] != found[: listed.count(",") + 1]:
        raise UnimplementedError(
            f"gpu_options.visible_device_list={listed!r}: sparkflow does not renumber GPUs. Set the environment "
            "variable CUDA_VISIBLE_DEVICES before the process starts"
        )
    most = [n for n in (wanted, listed.count(",") + 1 if listed else None) if n is not None]
    return found[: min(most, default=len(found))]
