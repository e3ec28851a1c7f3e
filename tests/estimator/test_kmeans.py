"""k-means by tf.contrib.factorization: as numpy steps, whatever the beginning, and as an Estimator."""

from __future__ import annotations

import pathlib
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

FACTORIZATION = tf.contrib.factorization
RNG = np.random.default_rng(0)
CORNERS = np.array([[0, -4], [5, 5], [-5, 5]], np.float32)
LABELS = np.arange(90) % 3
POINTS = (CORNERS[LABELS] + RNG.normal(size=(90, 2)) * 0.3).astype(np.float32)
BEGIN = np.array([[1, -1], [2, 2], [-2, 2]], np.float32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def steps(k_means: Any, x: Any, count: int) -> list[Any]:
    """[distances, nearest, least, centres] before each step."""
    distances, nearest, least, ready, centres, choose, train = k_means.training_graph()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert not session.run(ready)
        for _ in range(2):
            session.run(choose, {x: POINTS})
        assert session.run(ready)
        found = []
        for _ in range(count):
            found.append(session.run([distances[0], nearest[0], least[0], centres], {x: POINTS}))
            session.run(train, {x: POINTS})
        return found


@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_means_of_all_points(graph: Any, metric: str) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    points = unit(POINTS) if metric == "cosine" else POINTS
    centres = unit(BEGIN) if metric == "cosine" else BEGIN
    for distances, nearest, least, found in steps(FACTORIZATION.KMeans(x, 3, BEGIN, metric), x, 4):
        np.testing.assert_allclose(found, centres, rtol=1e-5, atol=1e-6)
        far = 1 - points @ centres.T if metric == "cosine" else ((points[:, None] - centres) ** 2).sum(2)
        np.testing.assert_allclose(distances, far, rtol=1e-4, atol=1e-5)
        assert (nearest == far.argmin(1)).all()
        np.testing.assert_allclose(least, far.min(1), rtol=1e-4, atol=1e-5)
        centres = np.stack([points[nearest == k].mean(0) for k in range(3)])
        centres = unit(centres) if metric == "cosine" else centres


def test_batches_move_the_centres(graph: Any) -> None:
    """By as much as each point counts among those that a cluster has had; the first centre is one."""
    x = tf.placeholder(tf.float32, [None, 2])
    centres, counts = BEGIN.astype(np.float64), np.ones(3)
    for _, nearest, _, found in steps(FACTORIZATION.KMeans(x, 3, lambda *_: BEGIN, use_mini_batch=True), x, 4):
        np.testing.assert_allclose(found, centres, rtol=1e-5, atol=1e-5)
        for k in range(3):
            mine = POINTS[nearest == k]
            counts[k] += len(mine)
            centres[k] += (mine - centres[k]).sum(0) / counts[k]


def test_distances_follow_after_some_steps(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    k_means = FACTORIZATION.KMeans(x, 3, BEGIN, use_mini_batch=True, mini_batch_steps_per_iteration=3)
    centres = [found for *_, found in steps(k_means, x, 7)]
    same = [(a == b).all() for a, b in pairwise(centres)]
    assert same == [True, True, False, True, True, False]


@pytest.mark.parametrize("begin", ["random", "kmeans_plus_plus"])
@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_first_centres_are_points(graph: Any, begin: str, metric: str) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    first = steps(FACTORIZATION.KMeans(x, 3, begin, metric, random_seed=3), x, 1)[0][-1]
    points = unit(POINTS) if metric == "cosine" else POINTS
    places = [int(np.abs(points - row).sum(1).argmin()) for row in first]
    np.testing.assert_allclose(first, points[places], atol=1e-6)
    assert len({*places}) == 3
    if begin == "kmeans_plus_plus":
        assert {*LABELS[places]} == {0, 1, 2}, "one of each corner"


def test_refusals(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    with pytest.raises(ValueError, match="Unsupported distance metric: 'manhattan'"):
        FACTORIZATION.KMeans(x, 3, distance_metric="manhattan")
    with pytest.raises(ValueError, match="initial_clusters can be 'random', 'kmeans_plus_plus'"):
        FACTORIZATION.KMeans(x, 3, "first")
    with pytest.raises(ValueError, match="must be at least 1, got 0 and 1"):
        FACTORIZATION.KMeans(x, 0)
    with pytest.raises(ValueError, match="the size of the points must be known"):
        FACTORIZATION.KMeans(tf.placeholder(tf.float32, [None, None]), 3)
    *_, choose, _ = FACTORIZATION.KMeans(x, 5).training_graph()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        says = r"a point for each of the 5 clusters, and has so many:\] \[3\]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=says):
            session.run(choose, {x: POINTS[:3]})


def input_fn() -> Any:
    return tf.train.limit_epochs(tf.convert_to_tensor(POINTS), num_epochs=1)


@pytest.mark.parametrize("mini", [False, True])
def test_the_estimator(tmp_path: pathlib.Path, mini: bool) -> None:
    """As TensorFlow's guide has it: one step on all points a call of train, of which the first one chooses centres."""
    kind = FACTORIZATION.KMeansClustering
    assert tf.estimator.experimental.KMeans is kind
    model = kind(3, str(tmp_path), kind.KMEANS_PLUS_PLUS_INIT, use_mini_batch=mini)
    for _ in range(5):
        model.train(input_fn)
    centres = model.cluster_centers()
    order = [int(((CORNERS - row) ** 2).sum(1).argmin()) for row in centres]
    assert sorted(order) == [0, 1, 2]
    np.testing.assert_allclose(centres, CORNERS[order], atol=0.3)
    assert [order[i] for i in model.predict_cluster_index(input_fn)] == LABELS.tolist()
    far = np.stack(list(model.transform(input_fn)))
    np.testing.assert_allclose(far, np.linalg.norm(POINTS[:, None] - centres, axis=2), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(model.score(input_fn), (far.min(1) ** 2).sum(), rtol=1e-3)
    assert model.get_variable_value("global_step") == 4


def test_columns_and_tolerance(tmp_path: pathlib.Path) -> None:
    def columns() -> Any:
        return tf.data.Dataset.from_tensors({"b": POINTS[:, 1:], "a": POINTS[:, :1]}).repeat(100)

    model = FACTORIZATION.KMeansClustering(3, str(tmp_path / "a"), BEGIN, use_mini_batch=False, relative_tolerance=1e-3)
    model.train(columns)
    assert model.get_variable_value("global_step") < 20
    np.testing.assert_allclose(np.sort(model.cluster_centers(), 0), np.sort(CORNERS, 0), atol=0.3)
    chosen = [tf.feature_column.numeric_column("a")]
    alone = FACTORIZATION.KMeansClustering(2, str(tmp_path / "b"), feature_columns=chosen).train(columns, steps=2)
    assert alone.cluster_centers().shape == (2, 1)
    with pytest.raises(ValueError, match="labels for clustering"):
        model.train(lambda: (tf.constant(POINTS), tf.constant(LABELS)))


def test_the_model_is_served(tmp_path: pathlib.Path) -> None:
    model = FACTORIZATION.KMeansClustering(3, str(tmp_path / "model"), use_mini_batch=False).train(input_fn)

    def receive() -> Any:
        x = tf.placeholder(tf.float32, [None, 2], "x")
        return tf.estimator.export.TensorServingInputReceiver(x, x)

    path = model.export_saved_model(str(tmp_path / "exported"), receive).decode()
    found = tf.contrib.predictor.from_saved_model(path)({"input": POINTS})
    assert found["cluster_index"].tolist() == list(model.predict_cluster_index(input_fn))


def test_other_workers_wait_for_the_chief(monkeypatch: pytest.MonkeyPatch) -> None:
    from sparkflow.estimator import kmeans

    monkeypatch.setattr(kmeans, "_WAIT_S", 0.2)
    monkeypatch.setattr(kmeans, "_LOOK_S", 0.01)
    with tf.Graph().as_default(), tf.Session() as session:
        ready = tf.Variable(False)
        session.run(ready.initializer)
        with pytest.raises(tf.errors.DeadlineExceededError, match="has not chosen the first centres"):
            kmeans._WaitHook(ready).after_create_session(session, None)
        session.run(ready.assign(True))
        kmeans._WaitHook(ready).after_create_session(session, None)
