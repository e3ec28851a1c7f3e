"""tf.config.threading: how many threads sessions run calls with, as ConfigProto has it."""

from sparkflow.session.defaults import settings


def get_intra_op_parallelism_threads() -> int:
    """0: as many as there are processors."""
    return int(settings().intra_op_parallelism_threads)


def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Of one op. The first session of the process that sets it decides."""
    settings().intra_op_parallelism_threads = num_threads


def get_inter_op_parallelism_threads() -> int:
    """0: as many as pay."""
    return int(settings().inter_op_parallelism_threads)


def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """Of ops that do not need each other. The first session of the process that sets it decides."""
    settings().inter_op_parallelism_threads = num_threads
