"""What is drawn at random is drawn once a run: from the initialization of an iterator on."""

import pytest

import sparkflow as tf
from sparkflow.data import order
from sparkflow.data.lasting import pairs
from sparkflow_runtime.kernels.philox import Stream, Words

pytestmark = pytest.mark.usefixtures("graph")
_N = 64


def _runs(dataset, sessions=2, times=2):
    iterator = tf.data.make_initializable_iterator(dataset)
    element, found = iterator.get_next(), []
    for _ in range(sessions):
        with tf.Session() as sess:
            for _ in range(times):
                sess.run(iterator.initializer)
                found.append([int(sess.run(element)) for _ in range(_N)])
    return found


def _shuffled(n=_N, **settings):
    return tf.data.Dataset.range(n).shuffle(n, **settings)


@pytest.mark.parametrize("fixed", [None, True, False])
def test_a_seed_gives_one_order_whenever_an_iterator_begins(fixed):
    first, *others = _runs(_shuffled(seed=7, reshuffle_each_iteration=fixed))
    assert sorted(first) == list(range(_N)) != first
    assert others == [first] * 3


def test_the_seed_of_a_graph_does_too():
    tf.set_random_seed(3)
    first, *others = _runs(_shuffled())
    assert others == [first] * 3


@pytest.mark.parametrize("fixed", [None, False])
def test_without_a_seed_each_run_has_its_own_order(fixed):
    found = _runs(_shuffled(reshuffle_each_iteration=fixed))
    assert len(set(map(tuple, found))) == 4


def test_the_order_is_tensorflows():
    again = tf.data.Dataset.range(10).shuffle(4, seed=3).repeat(2).batch(20)
    fixed = tf.data.Dataset.range(10).shuffle(4, seed=3, reshuffle_each_iteration=False).repeat(2).batch(20)
    twice = tf.data.Dataset.range(10).shuffle(4, seed=3).shuffle(3, seed=3).batch(20)
    numbers = tf.data.experimental.RandomDataset(3).take(3).batch(3)
    with tf.Session() as sess:
        found = [
            sess.run(tf.data.make_one_shot_iterator(d).get_next()).tolist() for d in (again, fixed, twice, numbers)
        ]
    assert found == [
        [0, 3, 2, 1, 4, 7, 6, 5, 8, 9, 0, 4, 1, 2, 5, 3, 6, 8, 9, 7],
        [3, 4, 2, 0, 7, 5, 6, 8, 9, 1] * 2,
        [0, 3, 2, 1, 7, 6, 4, 5, 8, 9],
        [3534849767, 279844183, 888998500],
    ]


_MAPS = {
    "again": lambda f: tf.data.Dataset.range(3).map(f).repeat(2).batch(6),
    "inside": lambda f: tf.data.Dataset.range(3).flat_map(lambda x: tf.data.Dataset.range(2).map(f)).batch(6),
    "with others": lambda f: tf.data.Dataset.range(6).map(lambda x: tf.py_func(float, [f(x)], tf.float64)).batch(6),
}


@pytest.mark.parametrize("dataset", _MAPS)
def test_a_function_draws_on_within_a_run_and_begins_anew_in_the_next(dataset):
    """As in TensorFlow, whose numbers these are."""
    made = _MAPS[dataset](lambda x: tf.random_uniform([], seed=2))
    iterator = tf.data.make_initializable_iterator(made)
    element = iterator.get_next()
    with tf.Session() as sess:
        for _ in range(2):
            sess.run(iterator.initializer)
            found = sess.run(element).round(3).tolist()
            assert found == pytest.approx([0.679, 0.201, 0.499, 0.712, 0.984, 0.957])


@pytest.mark.parametrize("size", [1, 3, 7, 1000, 1500, 5000])
def test_rows_that_fail_are_missing_and_move_nothing_else(size):
    """Longer than the draws that are made at once; the place of a failed row is filled by the next one."""

    def rows():
        return order.mapped(lambda n: 1 // (n % 500 != 499) and n, iter(range(4000)))

    def drawn(source):
        return [n for n, error in pairs(order.shuffled(source, size, Words(Stream(3, 5)))) if error is None]

    kept = [n for n in range(4000) if n % 500 != 499]
    assert drawn(rows()) == drawn(kept) and sorted(drawn(kept)) == kept
    assert (drawn(kept) == kept) == (size == 1)


@pytest.mark.parametrize("seed", [None, 5])
@pytest.mark.parametrize("fixed", [True, False])
def test_a_repeat_is_in_another_order_or_the_same(seed, fixed):
    half = _N // 2
    for found in _runs(_shuffled(half, seed=seed, reshuffle_each_iteration=fixed).repeat(2)):
        assert sorted(found[:half]) == sorted(found[half:]) == list(range(half))
        assert (found[:half] != found[half:]) == fixed


@pytest.mark.parametrize("seed", [None, 5])
def test_datasets_are_sampled_alike_by_a_seed_alone(seed):
    parts = [tf.data.Dataset.range(k, k + 1000) for k in (0, 1000)]
    first, *others = _runs(tf.data.experimental.sample_from_datasets(parts, seed=seed))
    assert (others == [first] * 3) == (seed is not None)


@pytest.mark.parametrize("seed", [None, 5])
def test_random_numbers_are_the_same_by_a_seed_alone(seed):
    first, *others = _runs(tf.data.experimental.RandomDataset(seed))
    assert (others == [first] * 3) == (seed is not None)


def test_shuffles_of_one_dataset_draw_apart():
    both = tf.data.Dataset.zip((_shuffled(), _shuffled())).map(lambda a, b: a * _N + b)
    (found,) = _runs(both, 1, 1)
    assert [v // _N for v in found] != [v % _N for v in found]
