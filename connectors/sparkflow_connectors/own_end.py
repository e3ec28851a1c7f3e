"""A model that says the data is over: no job ends by that.

A monitored session takes OutOfRangeError and StopIteration for the end of the data, and ends its block quietly. Of a
job that would be a worker which passes for one that is done, while others wait for it; or weights of an early epoch
that pass for those of all. Rows end by the feeder, which tells so otherwise; so what comes here is the model's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sparkflow_runtime.wire.devices import task_name, task_of
from sparkflow_runtime.wire.errors import InvalidArgumentError, OutOfRangeError, UnavailableError


@contextmanager
def refused(rank: int, where: Callable[[], str]) -> Iterator[None]:
    """where: the place in the training. Raises InvalidArgumentError at an end that this worker made; UnavailableError
    at one that another task's queue tells: its owner ended training, and says why."""
    try:
        yield
    except StopIteration as error:
        raise InvalidArgumentError(
            f"The model or one of its hooks raised StopIteration({error}) at {where()}: a job ends after `epochs`, or "
            "by `patience`"
        ) from error
    except OutOfRangeError as error:
        if error.device and task_of(error.device) != task_name("worker", rank):
            raise UnavailableError(f"Another task ended training at {where()}: {error.message}") from error
        raise InvalidArgumentError(
            f"The model's own input ended at {where()}. A job ends after `epochs`, or by `patience`: repeat that input "
            f"(such as by Dataset.repeat()), or give its values as columns of the table. {error.message}"
        ) from error
