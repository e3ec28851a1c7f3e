"""tf.keras.preprocessing.sequence: windows of series, and pairs of words."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf

sequence = tf.keras.preprocessing.sequence


def test_windows_of_a_series() -> None:
    data = np.arange(50).reshape(50, 1)
    made = sequence.TimeseriesGenerator(data, data, length=10, sampling_rate=2, batch_size=2)
    windows, targets = made[0]
    assert len(made) == 20 and isinstance(made, tf.keras.utils.Sequence)
    np.testing.assert_array_equal(windows[..., 0], [[0, 2, 4, 6, 8], [1, 3, 5, 7, 9]])
    np.testing.assert_array_equal(targets, [[10], [11]])


def test_strides_bounds_and_order() -> None:
    data = list(range(20))
    made = sequence.TimeseriesGenerator(
        data, data, 3, stride=4, start_index=2, end_index=15, reverse=True, batch_size=2
    )
    assert [t.tolist() for _, t in made] == [[5, 9], [13]]
    np.testing.assert_array_equal(made[0][0], [[4, 3, 2], [8, 7, 6]])
    shuffled = sequence.TimeseriesGenerator(data, data, 3, shuffle=True, batch_size=50)
    windows, targets = shuffled[0]
    np.testing.assert_array_equal(windows[:, -1] + 1, targets)
    assert set(targets) <= set(range(3, 20)) and len(targets) == 50
    with pytest.raises(ValueError, match="start_index\\+length=5 > end_index=4"):
        sequence.TimeseriesGenerator(data, data, 5, end_index=4)
    with pytest.raises(ValueError, match="Data length is 20 while target length is 1"):
        sequence.TimeseriesGenerator(data, [1], 5)


def test_pairs_of_words() -> None:
    couples, labels = sequence.skipgrams([1, 2, 0, 3], 9, window_size=1, negative_samples=0.0, shuffle=False)
    assert couples == [[1, 2], [2, 1]] and labels == [1, 1]
    couples, labels = sequence.skipgrams([1, 2, 3], 9, window_size=2, negative_samples=2.0, categorical=True, seed=3)
    pairs = list(zip(map(tuple, couples), map(tuple, labels)))
    true = {pair for pair, label in pairs if label == (0, 1)}
    assert true == {(1, 2), (1, 3), (2, 1), (2, 3), (3, 1), (3, 2)} and len(pairs) == 18
    assert all(1 <= b < 9 for (_, b), _ in pairs)
    assert sequence.skipgrams([1, 2, 3], 9, sampling_table=np.zeros(9)) == ([], [])


def test_how_likely_words_are_kept() -> None:
    table = sequence.make_sampling_table(1000, sampling_factor=1e-3)
    assert table[0] == table[1] and (np.diff(table) >= 0).all() and table[-1] == 1
    inverse = 10 * (np.log(10) + 0.577) + 0.5 - 1 / 120
    assert table[10] == pytest.approx(np.sqrt(1e-3 * inverse))
