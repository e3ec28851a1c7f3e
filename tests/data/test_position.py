"""Where an iterator stands, saved and taken up again: the elements are those that would have come."""

import json
import logging

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.data.experimental import CheckpointInputPipelineHook, make_saveable_from_iterator

pytestmark = pytest.mark.usefixtures("graph")


def _files(tmp_path):
    paths = []
    for k in range(3):
        paths.append(str(tmp_path / f"{k}.txt"))
        with open(paths[-1], "w") as f:
            f.writelines(f"{k}-{i}\n" for i in range(7))
    return paths


_RANGE = tf.data.Dataset.range
DATASETS = {
    "range": lambda p: _RANGE(100),
    "shuffled": lambda p: _RANGE(50).shuffle(20),
    "shuffled again and again": lambda p: _RANGE(10).shuffle(10).repeat(),
    "shuffled once": lambda p: _RANGE(10).shuffle(10, reshuffle_each_iteration=False).repeat(),
    "by a seed": lambda p: _RANGE(50).shuffle(50, seed=3).repeat(),
    "two shuffles": lambda p: tf.data.Dataset.zip((_RANGE(60).shuffle(9), _RANGE(60).shuffle(60))),
    "mapped, batched": lambda p: _RANGE(300).shuffle(30).map(lambda x: x * 2, num_parallel_calls=2).batch(4),
    "prefetched": lambda p: _RANGE(100).shuffle(30).map(lambda x: x + 1).prefetch(5),
    "cached": lambda p: _RANGE(9).cache().shuffle(9).repeat(),
    "files": lambda p: tf.data.TextLineDataset(_files(p)).shuffle(5).repeat(),
    "files in turn": lambda p: tf.data.Dataset.list_files(_files(p)).interleave(tf.data.TextLineDataset, 2).repeat(),
    "shuffled inside": lambda p: _RANGE(9).flat_map(lambda x: _RANGE(x, x + 9).shuffle(9)),
    "sampled": lambda p: tf.data.experimental.sample_from_datasets([_RANGE(100).shuffle(9), _RANGE(200, 300)]),
    "random": lambda p: tf.data.experimental.RandomDataset(),
    "windows": lambda p: _RANGE(90).shuffle(20).apply(
        tf.data.experimental.group_by_window(lambda x: x % 3, lambda k, d: d.shuffle(4).batch(2), 4)
    ),
    "generated": lambda p: tf.data.Dataset.from_generator(lambda: iter(range(100)), tf.int64, []).shuffle(10),
    "errors": lambda p: _RANGE(60).shuffle(60, seed=1).map(lambda x: tf.check_numerics(
        tf.where(x % 5 > 0, tf.cast(x, tf.float32), np.nan), "five")),
}  # fmt: skip


def _next(sess, element):
    try:
        return np.asarray(sess.run(element)).tolist()
    except tf.errors.InvalidArgumentError:
        return "failed"


@pytest.mark.parametrize("before", [0, 1, 17])
@pytest.mark.parametrize("name", DATASETS)
def test_it_goes_on_in_another_session_as_it_would_have(tmp_path, name, before):
    iterator = tf.data.make_initializable_iterator(DATASETS[name](tmp_path))
    element = iterator.get_next()
    saver = tf.train.Saver([make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(before):
            _next(sess, element)
        path = saver.save(sess, str(tmp_path / "ckpt"))
        after = [_next(sess, element) for _ in range(20)]
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(3):
            _next(sess, element)
        saver.restore(sess, path)
        assert [_next(sess, element) for _ in range(20)] == after
        saver.restore(sess, path)  # also in the same session, and from where it stands then
        assert [_next(sess, element) for _ in range(9)] == after[:9]
        between = saver.save(sess, str(tmp_path / "later"))
        saver.restore(sess, between)
        assert [_next(sess, element) for _ in range(11)] == after[9:]


@pytest.mark.parametrize("more", [lambda d: d, lambda d: d.batch(1), lambda d: d.padded_batch(1).prefetch(2)])
@pytest.mark.parametrize("many", [True, False])
def test_elements_that_are_passed_by_are_not_made(more, many):
    made = lambda x: tf.string_to_number(tf.where(x < 40, "none", tf.as_string(x)))  # noqa: E731
    if not many:
        one = made
        made = lambda x: tf.unique(tf.reshape(one(x), [1]))[0]  # noqa: E731
    dataset = _RANGE(100).shuffle(1).map(made)
    iterator = tf.data.make_initializable_iterator(more(dataset))
    place = json.dumps({"root": 1, "asked": 40, "failed": 0, "over": False})
    element, go = iterator.get_next(), make_saveable_from_iterator(iterator).restore([tf.constant(place)], None)
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        sess.run(go)
        assert sess.run(element) == 40


def test_python_functions_see_what_is_passed_by(tmp_path):
    calls = []
    counted = lambda x: (calls.append(x), np.int64(len(calls)))[1]  # noqa: E731
    iterator = tf.data.make_initializable_iterator(_RANGE(100).map(lambda x: tf.py_func(counted, [x], tf.int64)))
    element, saver = iterator.get_next(), tf.train.Saver([make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        assert [sess.run(element) for _ in range(40)][-1] == 40
        path = saver.save(sess, str(tmp_path / "ckpt"))
    calls.clear()
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        saver.restore(sess, path)
        assert sess.run(element) == 41


def test_the_end_stays_the_end(tmp_path):
    iterator = tf.data.make_initializable_iterator(_RANGE(3))
    element, saver = iterator.get_next(), tf.train.Saver([make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        for _ in range(3):
            sess.run(element)
        before_end = saver.save(sess, str(tmp_path / "before"))
        with pytest.raises(tf.errors.OutOfRangeError):
            sess.run(element)
        at_end = saver.save(sess, str(tmp_path / "at"))
    for path in (before_end, at_end):
        with tf.Session() as sess:
            sess.run(iterator.initializer)
            saver.restore(sess, path)
            with pytest.raises(tf.errors.OutOfRangeError):
                sess.run(element)


def test_with_the_variables_by_the_collection(tmp_path):
    iterator = tf.data.make_one_shot_iterator(_RANGE(50).shuffle(50))
    total = tf.Variable(0, dtype=tf.int64, name="total")
    add = total.assign_add(iterator.get_next())
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, make_saveable_from_iterator(iterator))
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(total.initializer)
        for _ in range(20):
            sess.run(add)
        path = saver.save(sess, str(tmp_path / "ckpt"))
    assert [name for name, _ in tf.train.list_variables(path)] == ["IteratorV2_STATE", "total"]
    with tf.Session() as sess:
        saver.restore(sess, path)
        for _ in range(30):
            sess.run(add)
        assert sess.run(total) == sum(range(50))  # each once


def test_it_must_have_begun(tmp_path):
    iterator = tf.data.make_initializable_iterator(_RANGE(3))
    saver = tf.train.Saver([make_saveable_from_iterator(iterator)])
    with tf.Session() as sess:
        with pytest.raises(tf.errors.FailedPreconditionError, match="initializer"):
            saver.save(sess, str(tmp_path / "ckpt"))
        sess.run(iterator.initializer)
        path = saver.save(sess, str(tmp_path / "ckpt"))
    with tf.Session() as sess, pytest.raises(tf.errors.FailedPreconditionError, match="initializer"):
        saver.restore(sess, path)


_PLACE = {"root": 1, "asked": 1, "failed": 0, "over": False}


@pytest.mark.parametrize(
    "text",
    ["", "x", "[]", "{}", *(json.dumps(_PLACE | {k: v}) for k, v in (("asked", "a"), ("asked", -1), ("root", -1)))],
)
def test_what_is_no_position_is_refused(text):
    iterator = tf.data.make_initializable_iterator(_RANGE(3))
    element, saveable = iterator.get_next(), make_saveable_from_iterator(iterator)
    back = saveable.restore([tf.constant(text)], None)
    with tf.Session() as sess:
        sess.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="no position"):
            sess.run(back)
        assert sess.run(element) == 0  # stands where it stood


def test_one_that_a_handle_names_is_refused():
    handle = tf.placeholder(tf.string, [])
    fed = tf.data.Iterator.from_string_handle(handle, tf.int64, [])
    with pytest.raises(TypeError, match="whose handle"):
        make_saveable_from_iterator(fed)
    with pytest.raises(ValueError, match="external_state_policy"):
        make_saveable_from_iterator(tf.data.make_one_shot_iterator(_RANGE(3)), "maybe")


def _estimator(folder, seen):
    def model(features, labels, mode):
        step = tf.train.get_or_create_global_step()
        w = tf.get_variable("w", [], tf.float32, tf.zeros_initializer())
        noted = tf.py_func(lambda x: (seen.append(int(x)), np.float32(0))[1], [features], tf.float32)
        loss = tf.reshape(noted, []) + w
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train)

    config = tf.estimator.RunConfig(str(folder), save_checkpoints_steps=5)
    return tf.estimator.Estimator(model, config=config)


def test_an_estimator_goes_on_in_its_data(tmp_path, caplog):
    seen = []
    read = lambda: _RANGE(40).shuffle(40)  # noqa: E731
    for steps in (12, 8, 20):
        estimator = _estimator(tmp_path, seen)
        estimator.train(read, hooks=[CheckpointInputPipelineHook(estimator)], steps=steps)
    assert sorted(seen) == list(range(40)) != seen
    assert (tmp_path / "checkpoint_input").exists() and (tmp_path / "input.ckpt-40.index").exists()
    assert not list(tmp_path.glob("input*.meta"))
    for path in [*tmp_path.glob("input.ckpt-40*")]:
        path.unlink()
    with caplog.at_level(logging.WARNING):
        estimator = _estimator(tmp_path, seen)
        estimator.train(read, hooks=[CheckpointInputPipelineHook(estimator)], max_steps=41)
    assert "no position in the data was saved then" in caplog.text


def test_a_monitored_session_goes_on_in_its_data(tmp_path):
    for steps in (25, 20, 15):
        with tf.Graph().as_default():
            element = (iterator := tf.data.make_one_shot_iterator(_RANGE(60).shuffle(60))).get_next()
            total = tf.get_variable("total", [], tf.int64, tf.zeros_initializer())
            tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, make_saveable_from_iterator(iterator))
            step = tf.group(total.assign_add(element), tf.train.get_or_create_global_step().assign_add(1))
            stop = tf.train.StopAtStepHook(num_steps=steps)
            with tf.train.MonitoredTrainingSession(checkpoint_dir=str(tmp_path), hooks=[stop]) as sess:
                while not sess.should_stop():
                    sess.run(step)
    assert tf.train.load_variable(str(tmp_path), "total") == sum(range(60))  # each once
