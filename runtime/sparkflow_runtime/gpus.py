"""The GPUs that the sessions of a process may use, as their configuration has them."""

from __future__ import annotations

from sparkflow_runtime.kernels import memories
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import ConfigProto


def gpu_indices(config: ConfigProto) -> list[int]:
    """device_count["GPU"] says how many at most, gpu_options.visible_device_list ("1,0") which, in which order. Raises
    InvalidArgumentError where those are not there, and where an earlier session of this process had others."""
    wanted = config.device_count.get("GPU")
    if wanted == 0 or not memories.count():
        return []
    listed = config.gpu_options.visible_device_list
    if listed:
        try:
            numbers = [int(n) for n in listed.split(",")]
        except ValueError:
            raise InvalidArgumentError(
                f"gpu_options.visible_device_list={listed!r}: expected numbers and commas, such as '0,2'"
            ) from None
        memories.number(numbers)
    found = list(range(memories.shown()))
    return found if wanted is None else found[:wanted]
