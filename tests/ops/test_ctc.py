"""CTC against sums over every alignment; edit distances against the textbook's table."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels.edit_distance import distances
from sparkflow_runtime.wire.errors import InvalidArgumentError

RNG = np.random.default_rng(3)


def _by_labels(logits: np.ndarray) -> dict[tuple[int, ...], float]:
    """The probability of each label sequence; logits [time, classes]."""
    chances = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    found: dict[tuple[int, ...], float] = {}
    blank = logits.shape[1] - 1
    for path in product(range(blank + 1), repeat=len(logits)):
        labels = tuple(c for c, _ in groupby(path) if c != blank)
        found[labels] = found.get(labels, 0) + float(np.prod(chances[range(len(path)), path]))
    return found


def test_loss_sums_over_all_alignments(graph: Any) -> None:
    logits = RNG.normal(size=(5, 2, 3))
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([1, 1, 0]), [2, 2])
    loss = tf.nn.ctc_loss(labels, tf.constant(logits), [5, 3])
    with tf.Session() as session:
        found = session.run(loss)
    expected = [-np.log(_by_labels(logits[:5, 0])[1, 1]), -np.log(_by_labels(logits[:3, 1])[0,])]
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_beams_find_the_likeliest_labels(graph: Any) -> None:
    logits = RNG.normal(size=(5, 1, 3)) * 2
    decoded, score = tf.nn.ctc_beam_search_decoder(
        tf.constant(logits), [5], beam_width=50, top_paths=3, merge_repeated=False
    )
    with tf.Session() as session:
        paths, scores = session.run([decoded, score])
    ranked = sorted(_by_labels(logits[:, 0]).items(), key=lambda pair: -pair[1])[:3]
    assert [tuple(path.values.tolist()) for path in paths] == [labels for labels, _ in ranked]
    np.testing.assert_allclose(scores[0], np.log([chance for _, chance in ranked]), rtol=1e-9)


def test_a_prefix_pushed_out_before_its_turn_is_forgotten(graph: Any) -> None:
    """It grew in its turn, and took the places of others that TensorFlow keeps."""
    logits = np.random.RandomState(1).randn(6, 2, 5)[:, :1]
    _, score = tf.nn.ctc_beam_search_decoder(tf.constant(logits), [6], beam_width=3, top_paths=2)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(score)[0], [-3.3098328, -3.5350933], rtol=1e-6)


def test_greedy_merges_what_repeats(graph: Any) -> None:
    classes = [0, 0, 2, 0, 1, 1]
    logits = np.eye(3, dtype="f4")[classes][:, None] * 3
    outs = [tf.nn.ctc_greedy_decoder(tf.constant(logits), [6], merge) for merge in (True, False)]
    with tf.Session() as session:
        merged, whole = session.run([decoded[0].values for decoded, _ in outs])
        np.testing.assert_allclose(session.run(outs[0][1]), [[-18]])
    assert merged.tolist() == [0, 0, 1] and whole.tolist() == [0, 0, 0, 1, 1]


def test_shapes_are_refused_at_build_time(graph: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"\(4,\).*\(7, 3, 5\)"):
        tf.nn.ctc_greedy_decoder(tf.placeholder("float32", [7, 3, 5]), tf.placeholder("int32", [4]))
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.nn.ctc_loss(tf.constant([[1]]), tf.placeholder("float32", [7, 3, 5]), [7, 7, 7])


def _table(a: list[int], b: list[int]) -> int:
    rows = np.zeros((len(a) + 1, len(b) + 1), int)
    rows[:, 0], rows[0] = range(len(a) + 1), range(len(b) + 1)
    for i, x in enumerate(a, 1):
        for j, y in enumerate(b, 1):
            rows[i, j] = min(rows[i - 1, j - 1] + (x != y), rows[i - 1, j] + 1, rows[i, j - 1] + 1)
    return int(rows[-1, -1])


@pytest.mark.parametrize("run", [distances.loop, distances.numpy])
def test_both_versions_of_the_distance(run: Any) -> None:
    some, other = ([RNG.integers(0, 3, n).tolist() for n in sizes] for sizes in ((4, 0, 7, 5, 0), (6, 3, 0, 5, 0)))
    ends = [np.concatenate([[0], np.cumsum([len(s) for s in part])]).astype(np.int64) for part in (some, other)]
    flat = [np.array([v for s in part for v in s], np.int64) for part in (some, other)]
    out = np.empty(5, np.int64)
    run(flat[0], ends[0], flat[1], ends[1], np.empty(9, np.int64), out)
    assert out.tolist() == [_table(a, b) for a, b in zip(some, other)]


def test_edit_distance_of_groups_without_a_partner(graph: Any) -> None:
    hypothesis = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["a", "b", "c"], [3, 2])
    truth = tf.SparseTensor([[0, 0], [2, 0]], ["a", "x"], [3, 1])
    with tf.Session() as session:
        found, plain = session.run([tf.edit_distance(hypothesis, truth, n) for n in (True, False)])
    assert found.tolist() == [1, np.inf, 1] and plain.tolist() == [1, 1, 1]


def _second_way(labels: list[int], logits: np.ndarray, blank: int) -> float:
    """logits [time, classes], of any blank, by `_by_labels` with it behind."""
    order = [c for c in range(logits.shape[1]) if c != blank] + [blank]
    wanted = tuple(order.index(c) for c in labels)
    return -float(np.log(_by_labels(logits[:, order])[wanted]))


@pytest.mark.parametrize("blank", [0, 1, -1])
@pytest.mark.parametrize("sparse", [False, True])
def test_loss_with_the_blank_anywhere(graph: Any, blank: int, sparse: bool) -> None:
    logits = RNG.normal(size=(5, 2, 3))
    rows = [[c for c in row if c != blank % 3] for row in ([0, 1, 2], [2, 1, 0])]
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [1, 1]], tf.constant([*rows[0], *rows[1]]), [2, 2])
    given = labels if sparse else tf.constant([[*row, 0] for row in rows])
    loss = tf.nn.ctc_loss_v2(given, tf.constant(logits), None if sparse else [2, 2], [5, 4], blank_index=blank)
    expected = [_second_way(row, logits[:t, b], blank % 3) for b, (row, t) in enumerate(zip(rows, (5, 4)))]
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(loss), expected, rtol=1e-9)


def test_gradient_of_dense_labels_some_of_which_are_none(graph: Any) -> None:
    """Against differences; the second sequence has no labels, so that all of it is blanks."""
    logits = RNG.normal(size=(2, 4, 3))
    x = tf.placeholder(tf.float64, [2, 4, 3])
    loss = tf.nn.ctc_loss_v2([[1, 2], [0, 0]], x, [2, 0], [4, 3], logits_time_major=False)
    (slope,) = tf.gradients(loss, x)
    direction, h = RNG.normal(size=logits.shape), 1e-6
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(loss, {x: logits})[1], _second_way([], logits[1, :3], 0), rtol=1e-9)
        up, down = (session.run(loss, {x: logits + s * h * direction}).sum() for s in (1, -1))
        np.testing.assert_allclose(
            (session.run(slope, {x: logits}) * direction).sum(), (up - down) / (2 * h), rtol=1e-6
        )
    with pytest.raises(ValueError, match="blank_index"):
        tf.nn.ctc_loss_v2(tf.SparseTensor([[0, 0]], [1], [1, 1]), tf.zeros([3, 1, 3]), None, [3])
    with pytest.raises(ValueError, match="number of classes"):
        tf.nn.ctc_loss_v2([[1]], tf.placeholder(tf.float32), [1], [3])


def test_repeated_labels_collapse(graph: Any) -> None:
    labels, lengths = tf.nn.collapse_repeated([[1, 1, 2, 2, 3], [4, 4, 4, 0, 0], [1, 2, 1, 2, 1]], [5, 3, 4])
    with tf.Session() as session:
        assert session.run(labels).tolist() == [[1, 2, 3, 0], [4, 0, 0, 0], [1, 2, 1, 2]]
        assert session.run(lengths).tolist() == [3, 1, 4]
