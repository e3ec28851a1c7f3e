"""Where workers go on: what the ledger of a checkpoint says, and when it is not believed."""

from __future__ import annotations

import pytest

from sparkflow_connectors.feeding import Mark, Start
from sparkflow_connectors.ledger import MARKS, POSITION, begun_again, check_ledger, starts
from sparkflow_runtime.wire.errors import FailedPreconditionError

# epoch, step, batch size, rows and checksum of the first pass; of each worker
SAVED = [2, 5, 64, 320, 99, 2, 5, 64, 310, 98]


def test_a_worker_goes_on_at_its_step() -> None:
    assert starts(SAVED, 2, 64) == [Start(2, 5, Mark(320, 99)), Start(2, 5, Mark(310, 98))]
    assert starts([2, 0, 64, 320, 99], 1, 64) == [Start(2, 0)], "an epoch begins with any rows"


def test_other_workers_or_batches_begin_the_epoch_again() -> None:
    assert starts(SAVED, 3, 64) == [Start(2, 0)] * 3
    assert starts(SAVED, 2, 32) == [Start(2, 0)] * 2
    assert starts([3, 0, 64, 0, 0, 2, 5, 64, 310, 98], 1, 64) == [Start(2, 0)], "the slowest of asynchronous ones"


def test_without_a_checkpoint_all_begin() -> None:
    assert starts(None, 2, 64) == [Start(0, 0)] * 2


def test_a_micro_batch_begins_with_its_own_epoch() -> None:
    assert starts(None, 1, 64, begin_epoch=4) == [Start(4, 0)]
    assert starts(SAVED, 2, 64, begin_epoch=4) == [Start(4, 0)] * 2
    assert starts(SAVED, 2, 64, begin_epoch=2) == starts(SAVED, 2, 64)


def test_who_begins_an_epoch_again_is_told_why() -> None:
    assert begun_again(SAVED, 3, 64, 0, 3) == "by 2 workers, and there are 3"
    assert begun_again(SAVED, 2, 32, 0, 3) == "with batches of 64 rows, and batch_size is 32"
    assert begun_again([3, 0, 64, 0, 0, 2, 0, 64, 0, 0], 1, 64, 0, 4), "an asynchronous worker was an epoch ahead"
    done = [2, 0, 64, 320, 99, 2, 0, 64, 310, 98]
    for given in [(SAVED, 2, 64, 0, 3), (None, 2, 64, 0, 3), (done, 3, 64, 0, 3), (SAVED, 3, 64, 4, 5)]:
        assert not begun_again(*given)
    assert not begun_again(SAVED, 3, 64, 0, 2), "all epochs that are wanted are over"


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ({"w": [4]}, "`train` has not written it"),
        ({POSITION: [2, 3]}, r"position has shape \[2, 3\] in it, and sparkflow_job/marks is missing"),
        ({POSITION: [2, 3], MARKS: [1, 2]}, r"and sparkflow_job/marks \[1, 2\]"),
        ({POSITION: [], MARKS: []}, "does not say which rows"),
    ],
)
def test_a_ledger_that_is_not_whole_is_refused(shapes: dict[str, list[int]], told: str) -> None:
    with pytest.raises(FailedPreconditionError, match=told):
        check_ledger("model.ckpt-1", shapes)
    check_ledger("model.ckpt-1", {POSITION: [2, 3], MARKS: [2, 2]})
