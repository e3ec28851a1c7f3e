"""Random values: TensorFlow's own for a seed, its distributions and its rules of seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle.engines import OURS, THEIRS, Engine

COUNT = 20_000
DRAWS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda tf, dtype: tf.random_uniform([COUNT], seed=7, dtype=dtype),
    "uniform-between": lambda tf, dtype: tf.random_uniform([COUNT], -3, 5, seed=7, dtype=dtype),
    "normal": lambda tf, dtype: tf.random_normal([COUNT], 1, 2, seed=7, dtype=dtype),
    "gamma": lambda tf, dtype: tf.random_gamma([COUNT], 2.5, 0.5, seed=7, dtype=dtype),
    "small-gamma": lambda tf, dtype: tf.random_gamma([COUNT], 0.4, seed=7, dtype=dtype),
    "poisson": lambda tf, dtype: tf.random_poisson(tf.constant(3.5), [COUNT], seed=7, dtype=dtype),
    "classes": lambda tf, dtype: tf.cast(tf.multinomial(tf.constant([[0.0, 1, -1]], dtype), COUNT, seed=7)[0], dtype),
    "truncated": lambda tf, dtype: tf.truncated_normal([COUNT], 1, 2, seed=7, dtype=dtype),
}


def _run(engine: Engine, build: Callable[[Any], Any], times: int = 1, graph_seed: int | None = 11) -> list[np.ndarray]:
    graph = engine.graph()
    with graph.as_default():
        if graph_seed is not None:
            engine.tf.set_random_seed(graph_seed)
        fetch = build(engine.tf)
        with engine.session(graph) as session:
            return [np.asarray(session.run(fetch)) for _ in range(times)]


def _distance(a: np.ndarray, b: np.ndarray) -> float:
    """Kolmogorov and Smirnov's: the largest distance between the two empirical distribution functions."""
    a, b = np.sort(a.astype(np.float64)), np.sort(b.astype(np.float64))
    both = np.concatenate([a, b])
    return float(np.abs(np.searchsorted(a, both, "right") - np.searchsorted(b, both, "right")).max() / len(a))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("draw", DRAWS)
def test_the_distribution_is_tensorflows(draw: str, dtype: str) -> None:
    ours, theirs = (_run(e, lambda tf: DRAWS[draw](tf, getattr(tf, dtype)))[0] for e in (OURS, THEIRS))
    assert ours.dtype == theirs.dtype
    assert _distance(ours, theirs) < 1.95 * np.sqrt(2 / COUNT)  # exceeded by chance once in a thousand


def test_integers_are_as_often() -> None:
    ours, theirs = (_run(e, lambda tf: tf.random_uniform([COUNT], 0, 10, tf.int32, seed=5))[0] for e in (OURS, THEIRS))
    for drawn in (ours, theirs):
        counts = np.bincount(drawn, minlength=10)
        assert len(counts) == 10 and np.abs(counts - COUNT / 10).max() < 5 * np.sqrt(COUNT / 10)


@pytest.mark.parametrize("graph_seed", [None, 11])
@pytest.mark.parametrize("op_seed", [None, 7])
def test_seeds_repeat_a_stream_as_in_tensorflow(graph_seed: int | None, op_seed: int | None) -> None:
    """Two sessions draw the same where a seed is set, a session goes on in its stream, and two ops draw differently."""
    for engine in (OURS, THEIRS):

        def build(tf: Any) -> Any:
            return [tf.random_uniform([4], seed=op_seed), tf.random_uniform([4], seed=op_seed)]

        first, again = (_run(engine, build, 2, graph_seed) for _ in range(2))
        repeats = graph_seed is not None or op_seed is not None
        assert all(np.array_equal(a, b) for a, b in zip(first, again)) is repeats
        assert not np.array_equal(first[0], first[1])
        alike = np.array_equal(first[0][0], first[0][1])
        assert alike is (op_seed is not None), engine.name


def _program(tf: Any) -> list[Any]:
    """A training as TF1 wrote it, no seed but the graph's: its weights, and its losses, are nobody else's."""
    x = tf.constant(np.random.RandomState(1).randn(40, 6), tf.float32)
    drawn = tf.random_uniform([40, 6], -1, 1)
    hidden = tf.nn.relu(tf.matmul(x + 0.1 * drawn, tf.get_variable("w", [6, 20])))
    hidden = tf.nn.dropout(hidden, keep_prob=0.7)
    with tf.variable_scope("out", initializer=tf.truncated_normal_initializer(stddev=0.3)):
        logits = tf.matmul(hidden, tf.get_variable("w", [20, 3]))
    wanted = tf.one_hot(tf.random_uniform([40], 0, 3, tf.int64, seed=3), 3)
    noise = tf.Variable(tf.random_normal([3], stddev=0.1))
    loss = tf.losses.softmax_cross_entropy(wanted, logits + noise)
    return [loss, tf.train.AdagradOptimizer(0.1).minimize(loss)]


def _next(tf: Any, dataset: Any) -> Any:
    return tf.data.make_one_shot_iterator(dataset).get_next()


def _boxes(tf: Any, covered: float, ratios: list[float], areas: list[float], tries: int) -> list[Any]:
    boxes = [[[0.1, 0.2, 0.8, 0.9], [0.3, 0.0, 0.5, 0.2], [0.7, 0.7, 0.7, 0.7]]]
    return list(tf.image.sample_distorted_bounding_box([211, 170, 3], boxes, 4, 5, covered, ratios, areas, tries))


def _shuffled(tf: Any, taken: int) -> Any:
    queue = tf.RandomShuffleQueue(200, 0, [tf.int32, tf.float32], [[], [2]], seed=6)
    with tf.control_dependencies([queue.enqueue_many([tf.range(30), tf.random_uniform([30, 2])])]):
        return queue.dequeue_many(taken)[0]


def _several(tf: Any, weights: Any) -> Any:
    parts = [tf.data.Dataset.range(first, first + count) for first, count in ((0, 500), (1000, 100), (2000, 300))]
    return tf.data.experimental.sample_from_datasets(parts, weights, seed=4).repeat(3)


def _sampled(tf: Any, sampler: Any, unique: bool, **more: Any) -> list[Any]:
    return list(sampler(tf.constant([[1], [2]], tf.int64), 1, 40, unique, 90, seed=4, **more))


def _between(tf: Any, *given: Any) -> Any:
    *given, dtype = given if given[-1] is tf.float64 else (*given, tf.float32)
    return tf.random.stateless_parameterized_truncated_normal([90, 4], [3, 4], *(tf.constant(x, dtype) for x in given))


def _fractional(tf: Any, pool: Any, even: bool) -> list[Any]:
    images = tf.random_uniform([2, 17, 23, 2])
    return list(pool(images, [1.0, 1.44, 1.73, 1.0], even, deterministic=True, seed=5, seed2=6))


def _noisy(tf: Any) -> Any:
    return tf.data.Dataset.range(12).shuffle(12).map(lambda x: x + 100 * tf.random_uniform([], 0, 9, tf.int64))


def _twice(numbers: Any) -> Any:
    return numbers.concatenate(numbers)


def _halves(tf: Any, numbers: Any) -> Any:
    parts = [numbers.filter(lambda x: x % 2 > 0), numbers.filter(lambda x: x % 2 < 1).shuffle(3)]
    return tf.data.experimental.sample_from_datasets(parts, [0.5, 0.5], seed=2).repeat()


def _resampled(tf: Any, initial: Any) -> list[Any]:
    numbers = tf.data.Dataset.range(2000).map(lambda x: tf.cast(x % 7 % 3, tf.int32))
    resample = tf.data.experimental.rejection_resample(lambda x: x, [0.2, 0.3, 0.5], initial, seed=4)
    return list(_next(tf, numbers.apply(resample).batch(300)))


SAME: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda tf: tf.random_uniform([70, 3], -2, 5, seed=5),
    "uniform-by-graph-seed": lambda tf: [tf.random_uniform([3]), tf.random_uniform([2]), tf.random_uniform([3])],
    "uniform-half": lambda tf: tf.random_uniform([7], seed=5, dtype=tf.float16),
    "uniform-double": lambda tf: tf.random_uniform([7], seed=2**40 + 3, dtype=tf.float64),
    "int": lambda tf: tf.random_uniform([9], -5, 100, tf.int32, seed=-5),
    "long": lambda tf: tf.random_uniform([9], -5, 1 << 40, tf.int64, seed=5),
    "normal": lambda tf: tf.random_normal([301], 1, 2, seed=5),
    "normal-half": lambda tf: tf.random_normal([7], seed=5, dtype=tf.float16),
    "normal-double": lambda tf: tf.random_normal([9], seed=5, dtype=tf.float64),
    "truncated": lambda tf: tf.truncated_normal([301], seed=5),
    "truncated-half": lambda tf: tf.truncated_normal([30], seed=5, dtype=tf.float16),
    "truncated-double": lambda tf: tf.truncated_normal([31], seed=5, dtype=tf.float64),
    "shuffle": lambda tf: tf.random_shuffle(tf.range(50), seed=5),
    "shuffle-rows": lambda tf: tf.random_shuffle(tf.reshape(tf.range(20), [10, 2])),
    "classes": lambda tf: tf.multinomial(tf.constant([[1.0, 2, 3], [3, 2, 1]]), 9, seed=5),
    "classes-double": lambda tf: tf.random.categorical(tf.constant([[1.0, 2, 3]] * 5, tf.float64), 10, seed=5),
    "gamma": lambda tf: tf.random_gamma([70], [0.3, 1.0, 2.5], 0.5, seed=5),
    "gamma-double": lambda tf: tf.random_gamma([7, 30], [0.01, 0.99, 40.0], dtype=tf.float64),
    "poisson": lambda tf: tf.random_poisson([0.0, 0.5, 3.0, 9.9, 12.0, 1000.0], [60], seed=5),
    "poisson-double": lambda tf: tf.random_poisson(tf.constant([0.5, 1e7], tf.float64), [60], tf.float64),
    "beta-normal": lambda tf: tf.distributions.Beta([1.0, 2.0], [0.5, 2.0]).sample(20, seed=5),
    "student-normal": lambda tf: tf.distributions.StudentT([3.0, 4.0], [0.0, 1.0], 2.0).sample(20, seed=5),
    "dirichlet-normal": lambda tf: tf.distributions.Dirichlet([1.0, 2.0, 3.0]).sample(20),
    "laplace-normal": lambda tf: tf.distributions.Laplace(1.0, 2.0).sample(20),
    "bernoulli": lambda tf: tf.distributions.Bernoulli(probs=[0.2, 0.7]).sample(20),
    "categorical": lambda tf: tf.distributions.Categorical(probs=[[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]).sample(20),
    "counts": lambda tf: tf.distributions.Multinomial(9.0, probs=[0.2, 0.3, 0.5]).sample([3, 2], seed=5),
    "counts-of-dirichlet": lambda tf: tf.distributions.DirichletMultinomial(9.0, [[1.0, 2], [3, 4]]).sample(7, seed=5),
    "dropout": lambda tf: tf.nn.dropout(tf.ones([30, 4]), rate=0.4),
    "dropout-noise-shape": lambda tf: tf.nn.dropout(tf.ones([30, 4]), tf.constant(0.6), [30, 1], seed=2),
    "flip": lambda tf: tf.image.random_flip_left_right(tf.reshape(tf.range(12.0), [2, 2, 3]), seed=5),
    "flip-each": lambda tf: tf.image.random_flip_up_down(tf.reshape(tf.range(90.0), [15, 2, 3, 1])),
    "crop": lambda tf: tf.random_crop(tf.reshape(tf.range(90), [9, 10]), [3, 4], seed=5),
    "boxes": lambda tf: _boxes(tf, 0.1, [0.75, 1.33], [0.05, 1.0], 100),
    "boxes-of-few-tries": lambda tf: _boxes(tf, 0.9, [0.2, 3.0], [0.3, 0.4], 3),
    "brightness": lambda tf: tf.image.random_brightness(tf.zeros([2, 2, 3]), 0.5, seed=5),
    "dataset": lambda tf: _next(tf, tf.data.Dataset.range(2500).shuffle(40, seed=3).repeat().batch(1500)),
    "dataset-by-graph-seed": lambda tf: _next(tf, tf.data.Dataset.range(90).shuffle(90).repeat(2).batch(60)),
    "dataset-fixed": lambda tf: _next(tf, tf.data.Dataset.range(50).shuffle(9, 5, False).repeat(2).batch(30)),
    "dataset-inside": lambda tf: _next(
        tf, tf.data.Dataset.range(9).flat_map(lambda x: tf.data.Dataset.range(x, x + 9).shuffle(4, 5)).batch(25)
    ),
    "dataset-of-several": lambda tf: _next(tf, _several(tf, None).batch(900)),
    "dataset-of-several-by-weight": lambda tf: _next(tf, _several(tf, [0.5, 0.2, 0.3]).batch(900)),
    "dataset-of-other-classes": lambda tf: _resampled(tf, [0.4, 0.3, 0.3]),
    "dataset-of-estimated-classes": lambda tf: _resampled(tf, None),
    "dataset-before-others": lambda tf: [
        _next(tf, tf.data.Dataset.range(9).repeat().map(lambda x: tf.random_uniform([])).batch(4)),
        tf.random_uniform([3]),
    ],
    "dataset-beside-itself": lambda tf: list(_next(tf, tf.data.Dataset.zip((_noisy(tf),) * 2).repeat().batch(20))),
    "dataset-behind-itself": lambda tf: _next(tf, _twice(_noisy(tf)).repeat().batch(30)),
    "dataset-of-two-kinds": lambda tf: _next(tf, _halves(tf, _noisy(tf)).batch(15)),
    "dataset-numbers": lambda tf: _next(tf, tf.data.experimental.RandomDataset(3).batch(9)),
    "log-uniform-classes": lambda tf: _sampled(tf, tf.nn.log_uniform_candidate_sampler, True),
    "log-uniform-classes-repeated": lambda tf: _sampled(tf, tf.nn.log_uniform_candidate_sampler, False),
    "uniform-classes": lambda tf: _sampled(tf, tf.nn.uniform_candidate_sampler, True),
    "learned-classes": lambda tf: _sampled(tf, tf.nn.learned_unigram_candidate_sampler, True),
    "given-classes": lambda tf: _sampled(
        tf, tf.nn.fixed_unigram_candidate_sampler, True, unigrams=[*range(1, 10)] * 10, distortion=0.75
    ),
    "given-classes-reserved": lambda tf: _sampled(
        tf, tf.nn.fixed_unigram_candidate_sampler, False, unigrams=[3.0] * 88, num_reserved_ids=2
    ),
    "queue": lambda tf: _shuffled(tf, 30),
    "queue-by-parts": lambda tf: _shuffled(tf, 7),
    "stateless": lambda tf: tf.random.stateless_normal([30], [3, 4]),
    "stateless-shuffle": lambda tf: tf.random.experimental.stateless_shuffle(tf.reshape(tf.range(86), [43, 2]), [3, 4]),
    "stateless-gamma": lambda tf: tf.random.stateless_gamma([40, 3], [3, 4], [0.3, 1.0, 2.5], beta=2.0),
    "stateless-gamma-each": lambda tf: tf.random.stateless_gamma([2, 3], [3, 4], [[0.3, 1, 2], [4, 5, 6]]),
    "stateless-poisson": lambda tf: tf.random.stateless_poisson([40, 3], [3, 4], [0.3, 20.5, 1000.0]),
    "stateless-binomial": lambda tf: tf.random.stateless_binomial(
        [60, 6], [3, 4], [0.0, 10.0, 100.0, 90.0, 1000.0, 1000.0], [0.3, 0.3, 0.05, 0.9, 0.8, 0.01]
    ),
    "stateless-truncated": lambda tf: _between(tf, [0.0, 1, 2, 0], [1.0, 2, 3, 1], [-2.0, -2, 3, -0.3], [2, 0, 9, 0.3]),
    "stateless-truncated-tails": lambda tf: _between(
        tf, 0.0, 1.0, [3, -np.inf, 2, -np.inf], [np.inf, -4, 20, 0.5], tf.float64
    ),
    "fractional-windows": lambda tf: _fractional(tf, tf.nn.fractional_max_pool, False),
    "fractional-even-windows": lambda tf: _fractional(tf, tf.nn.fractional_avg_pool, True),
    "stateless-classes": lambda tf: tf.random.stateless_categorical(tf.constant([[1.0, 2, 3]]), 20, [3, 4]),
}


_ROUNDED = ("normal", "truncated", "given")


@pytest.mark.parametrize("name", SAME)
def test_a_seed_draws_tensorflows_values(name: str) -> None:
    """In three steps one after the other. float32 normals to some units in the last place, see philox_loops.py, and so
    how often candidates of given chances are expected (4e-7 apart on a processor with AVX-512)."""
    runs = [_all_of(engine, SAME[name], 3) for engine in (OURS, THEIRS)]
    for ours, theirs in zip(*runs):
        assert ours.dtype == theirs.dtype and ours.shape == theirs.shape
        np.testing.assert_allclose(ours, theirs, 1e-6 if any(map(name.__contains__, _ROUNDED)) else 2e-7, 1e-7)


def test_a_seeded_training_has_tensorflows_losses() -> None:
    ours, theirs = (_all_of(engine, _program, 8) for engine in (OURS, THEIRS))
    np.testing.assert_allclose(ours, theirs, 1e-5)
    assert len(set(np.asarray(theirs).tolist())) == 8


def _all_of(engine: Engine, build: Callable[[Any], Any], times: int) -> list[np.ndarray]:
    graph = engine.graph()
    with graph.as_default():
        engine.tf.set_random_seed(11)
        fetches = build(engine.tf)
        fetches = fetches if isinstance(fetches, list) else [fetches]
        with engine.session(graph) as session:
            session.run(engine.tf.global_variables_initializer())
            return [np.asarray(v) for _ in range(times) for v in session.run(fetches) if v is not None]
