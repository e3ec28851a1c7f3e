"""tf.contrib.training.bucket: every example comes out once, beside others of its bucket."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf

BY_LENGTH = tf.contrib.training.bucket_by_sequence_length


def batches(fetches: Any) -> list[Any]:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coord, found = tf.train.Coordinator(), []
        threads = tf.train.start_queue_runners(session, coord)
        with pytest.raises(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(fetches))
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=20)
        return found


def numbers(count: int) -> Any:
    return tf.train.range_input_producer(count, num_epochs=1, shuffle=False).dequeue()


@pytest.mark.parametrize("smaller", [True, False])
@pytest.mark.parametrize("threads", [1, 2])
def test_sequences_of_similar_length(graph: Any, smaller: bool, threads: int) -> None:
    number = numbers(41)
    length = number % 9 + 1
    sequence = tf.fill([length], number)
    lengths, found = BY_LENGTH(
        length, {"s": sequence, "n": number}, batch_size=4, bucket_boundaries=[3, 7], num_threads=threads,
        dynamic_pad=True, allow_smaller_final_batch=smaller,
    )  # fmt: skip
    assert found["s"].shape.as_list() == [None if smaller else 4, None] and lengths.dtype == tf.int32
    seen = []
    for own, values in batches([lengths, found]):
        buckets = {int(np.searchsorted([3, 7], n, side="right")) for n in own}
        assert len(buckets) == 1 and values["s"].shape == (len(own), max(own))
        for n, row, number_of in zip(own, values["s"], values["n"]):
            assert row.tolist() == [number_of] * n + [0] * (max(own) - n) and n == number_of % 9 + 1
        seen += values["n"].tolist()
        assert smaller or len(own) == 4
    assert len({*seen}) == len(seen) and (sorted(seen) == list(range(41)) if smaller else len(seen) >= 41 - 3 * 3)


def test_a_list_of_one_stays_a_list(graph: Any) -> None:
    """As in TensorFlow: programs take its first entry."""
    number = numbers(4)
    _, found = BY_LENGTH(number, [tf.range(number)], 2, [3], dynamic_pad=True)
    assert isinstance(found, list) and [values.shape.as_list() for values in found] == [[2, None]]


def test_buckets_with_sizes_of_their_own(graph: Any) -> None:
    number = numbers(30)
    which, found = tf.contrib.training.bucket(
        number, number % 3, [2, 3, 5], 3, bucket_capacities=[4, 6, 10], keep_input=number >= 3
    )
    got: dict[int, list[int]] = {0: [], 1: [], 2: []}
    for bucket, values in batches([which, found]):
        assert len(values) == [2, 3, 5][bucket]
        got[bucket] += values.tolist()
    assert got == {0: [*range(3, 27, 3)], 1: [*range(4, 30, 3)], 2: [*range(5, 20, 3)]}


def test_refusals(graph: Any) -> None:
    number = numbers(3)
    with pytest.raises(ValueError, match="integers that rise, got"):
        BY_LENGTH(number, [number], 2, [3, 3])
    with pytest.raises(ValueError, match="batch_size must be one number or 3, one for each bucket"):
        BY_LENGTH(number, [number], [2, 2], [3, 5])
    with pytest.raises(ValueError, match="num_buckets must be at least 2"):
        tf.contrib.training.bucket(number, 0, 2, 1)
    with pytest.raises(ValueError, match="must be fully defined"):
        BY_LENGTH(number, tf.fill([number], 1), 2, [3])
