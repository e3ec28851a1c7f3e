"""tf.random.Generator, and stateless draws: TensorFlow 2.21's bits of what is drawn from words; and distributions."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import philox

# Words of Philox 4x32-10 for counters and keys of zeros and ones: Random123's kat_vectors.
KNOWN = [
    (0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (2**64 - 1, 2**128 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
]

WORDS: dict[str, Any] = {
    "uniform": [1062736984, 1044686728, 1065289852],
    "split": [[1830483746, 982760300], [718530383, -1715457811]],
    "fold_in": [1830483746, 5],
    "between": [-4, 28, 14],
    "normal": [0.868683210741278, 0.03291498161837508, 0.5327407222284877],
    "truncated": [1.4544598, 0.9997505, -0.0086222, -0.9190487, 0.0123447],
    "generator": [[39, 16], [44, 26]],
}


@pytest.mark.parametrize("key, counter, wanted", KNOWN)
def test_words_are_philoxs(key: int, counter: int, wanted: list[int]) -> None:
    assert philox.words(philox.Stream(key, counter), 1)[0].tolist() == wanted


def test_counters_carry() -> None:
    stream = philox.Stream(7, 2**64 - 2)
    several = philox.words(stream, 4)
    for number, row in enumerate(several):
        assert row.tolist() == philox.words(stream.at(number), 1)[0].tolist()


def _run(fetches: Any) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches)


def test_stateless_draws_are_tensorflows(graph: Any) -> None:
    seed = [3, -9]
    assert _run(tf.random.stateless_uniform([3], [1, 2])).view(np.uint32).tolist() == WORDS["uniform"]
    assert _run(tf.random.split(seed, 2)).tolist() == WORDS["split"]
    assert _run(tf.random.fold_in(seed, 5)).tolist() == WORDS["fold_in"]
    assert _run(tf.random.stateless_uniform([3], seed, -5, 50, tf.int64)).tolist() == WORDS["between"]
    np.testing.assert_allclose(_run(tf.random.stateless_normal([3], seed, dtype=tf.float64)), WORDS["normal"], 1e-14)
    np.testing.assert_allclose(_run(tf.random.stateless_truncated_normal([5], seed)), WORDS["truncated"], 1e-5)
    with pytest.raises(ValueError, match="minval and maxval must be both None"):
        tf.random.stateless_uniform([3], seed, dtype=tf.int32)


def test_a_generator_goes_on_and_is_tensorflows(graph: Any) -> None:
    g = tf.random.Generator.from_seed(1234)
    draw, state = g.uniform([2], -5, 50, tf.int32), g.state
    assert g.state.name == "random_generator/StateVar:0" and not tf.trainable_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(draw).tolist() for _ in range(2)] == WORDS["generator"]
        assert session.run(state).tolist() == [2258, 0, 0]
        assert session.run(g.skip(1)).tolist() == [2258, 0, 0] and session.run(g.key) == 0
        session.run(g.reset_from_seed(1234))
        assert session.run(draw).tolist() == WORDS["generator"][0]
        both = session.run([g.uniform([2], -5, 50, tf.int32), g.uniform([2], -5, 50, tf.int32)])
        assert both[0].tolist() != both[1].tolist()
        session.run(g.reset_from_key_counter(9, [5, 6]))
        assert session.run(state).tolist() == [5, 6, 9]
        session.run(g.reset([1, 2, 3]))
        assert session.run(state).tolist() == [1, 2, 3]


def test_generators_of_all_kinds(graph: Any) -> None:
    g = tf.random.Generator.from_seed(2**70 + 5)
    copy = tf.random.Generator(copy_from=g)
    parts = g.split(2)
    other = tf.random.Generator.from_non_deterministic_state()
    with tf.Session() as session:
        for several in ([g], [copy], parts, [other]):
            session.run([one.state.initializer for one in several])
        assert session.run(copy.state).tolist() == [5, 64, 0]
        keys = [session.run(one.state) for one in parts]
        assert keys[0][2] != keys[1][2] and not keys[0][:2].any()
        assert session.run(g.make_seeds(3)).shape == (2, 3)
        assert 0 <= session.run(g.binomial([1000], 10, 0.5)).mean() <= 10
        assert session.run(tf.random.get_global_generator().state.initializer) is None
        assert session.run(tf.random.get_global_generator().normal([2])).shape == (2,)
    tf.random.set_global_generator(g)
    assert tf.random.get_global_generator() is g
    with pytest.raises(tf.errors.UnimplementedError, match="ThreeFry"):
        tf.random.Generator.from_seed(1, alg="threefry")
    with pytest.raises(ValueError, match="copy_from, or state and alg"):
        tf.random.Generator()


DISTRIBUTIONS = {
    "gamma": (lambda r, s: r.stateless_gamma([40_000], s, 4.0, beta=2.0), 2.0, 1.0, tf.float32),
    "poisson": (lambda r, s: r.stateless_poisson([40_000], s, 3.0), 3.0, np.sqrt(3), tf.int32),
    "binomial": (lambda r, s: r.stateless_binomial([40_000], s, 10.0, 0.3), 3.0, np.sqrt(2.1), tf.int32),
    "near": (lambda r, s: r.stateless_parameterized_truncated_normal([40_000], s, 1.0, 2.0, 2.0, 3.0), 2.48, 0.288,
             tf.float32),
    "tail": (lambda r, s: r.stateless_parameterized_truncated_normal([40_000], s, 0.0, 1.0, 8.0, 9.0), 8.121, 0.118,
             tf.float32),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distributions(graph: Any, name: str) -> None:
    draw, mean, deviation, dtype = DISTRIBUTIONS[name]
    seed = tf.placeholder(tf.int64, [2])
    out = draw(tf.random, seed)
    assert out.dtype is dtype and out.shape.as_list() == [40_000]
    with tf.Session() as session:
        first, again, other = (session.run(out, {seed: s}) for s in ([1, 2], [1, 2], [1, -3]))
    assert (first == again).all() and (first != other).any()
    np.testing.assert_allclose([first.mean(), first.std()], [mean, deviation], rtol=0.02)


def test_gamma_values_move_with_alpha(graph: Any) -> None:
    alpha = tf.placeholder(tf.float64, [3])
    drawn = tf.random.stateless_gamma([3], [1, 2], alpha, dtype=tf.float64)
    slope = tf.gradients(drawn, alpha)[0]
    with tf.Session() as session:
        found = session.run(slope, {alpha: [1.0, 2.0, 30.0]})
    assert (found > 0).all() and found[2] == pytest.approx(1, abs=0.6)


def test_gradients_of_gamma_are_summed_to_alpha(graph: Any) -> None:
    alpha, each = tf.constant([[2.0], [5.0]], tf.float64), tf.constant([[2.0] * 3, [5.0] * 3], tf.float64)
    sums = [tf.gradients(tf.random.stateless_gamma([2, 3], [1, 2], a, dtype=tf.float64), a)[0] for a in (alpha, each)]
    with tf.Session() as session:
        found, apart = session.run(sums)
    np.testing.assert_allclose(found, apart.sum(1, keepdims=True))


def test_parameters_that_do_not_broadcast(graph: Any) -> None:
    drawn = tf.random.stateless_binomial([2, 3], [1, 2], [3.0, 4.0], [0.5])
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"do not broadcast to \[2, 3\]"):
        session.run(drawn)


def test_values_between_limits_move_with_them(graph: Any) -> None:
    """Each stays at the same part of the probability between them."""
    given = [0.5, 2.0, 1.0, 3.0]
    parameters = [tf.constant(v, tf.float64) for v in given]
    drawn = tf.random.stateless_parameterized_truncated_normal([200], [1, 2], *parameters)
    with tf.Session() as session:
        values, found = session.run([drawn, tf.gradients(tf.reduce_mean(drawn), parameters)])
    usual, step = NormalDist(), 1e-5

    def ends(mean: float, deviation: float, low: float, high: float) -> list[float]:
        return [usual.cdf((x - mean) / deviation) for x in (low, high)]

    below, above = ends(*given)
    parts = [(usual.cdf((x - given[0]) / given[1]) - below) / (above - below) for x in values]

    def mean_at(moved: list[float]) -> float:
        a, b = ends(*moved)
        return float(np.mean([moved[0] + moved[1] * usual.inv_cdf(a + u * (b - a)) for u in parts]))

    for at, slope in enumerate(found):
        up, down = ([v + (sign * step if i == at else 0) for i, v in enumerate(given)] for sign in (1, -1))
        assert slope == pytest.approx((mean_at(up) - mean_at(down)) / (2 * step), abs=1e-6)


def test_rows_in_an_order_by_a_seed(graph: Any) -> None:
    shuffle = tf.random.experimental.stateless_shuffle
    with tf.Session() as session:
        assert session.run(shuffle(tf.range(10), [1, 2])).tolist() == [0, 3, 8, 1, 5, 4, 9, 7, 6, 2]  # TensorFlow's
        assert session.run(shuffle(tf.constant(["a"]), [1, 2])).tolist() == [b"a"]
    with pytest.raises(tf.errors.UnimplementedError, match="Philox"):
        shuffle(tf.range(3), [1, 2], alg="threefry")


@pytest.mark.parametrize("dtype, far", [(tf.float32, 1e30), (tf.float64, 1e300)])
def test_limits_between_which_nothing_is_drawn_are_told(graph: Any, dtype: Any, far: float) -> None:
    """It was tried for ever."""
    finite, none = "means and stddevs must be finite", f"{dtype.name} has no values between"
    for given, said in (
        ((math.nan, 1, -1, 1), finite),
        ((0, math.inf, -1, 1), finite),
        ((0, math.nan, -1, 1), finite),
        ((0, 1, far, math.inf), none),
        ((0, 1 / far, 1, 2), none),
    ):
        drawn = tf.random.stateless_parameterized_truncated_normal([3], [1, 2], *(tf.constant(x, dtype) for x in given))
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=said):
            session.run(drawn)


@pytest.mark.parametrize("count", [math.inf, math.nan, -1.0])
def test_counts_that_are_none_are_refused(graph: Any, count: float) -> None:
    drawn = tf.random.stateless_binomial([2], [1, 2], tf.constant(count, tf.float64), tf.constant(0.5, tf.float64))
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="counts must be finite"):
        session.run(drawn)
