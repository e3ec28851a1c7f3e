"""A SaveableObject of the user's: saved beside variables, and taken back."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.saveable_object import BaseSaverBuilder, SaveableObject, SaveSpec

pytestmark = pytest.mark.usefixtures("graph")


class _Halves(SaveableObject):
    """A variable of two columns, saved as two vectors."""

    def __init__(self, variable, name):
        self._variable = variable
        left, right = tf.unstack(variable, axis=1)
        specs = [SaveSpec(left, "", f"{name}_left"), SaveSpec(lambda: right, "", f"{name}_right", right.dtype, "")]
        super().__init__(variable, specs, name)

    def restore(self, restored_tensors, restored_shapes):
        return self._variable.assign(tf.stack(restored_tensors, axis=1))


@pytest.mark.parametrize("sharded", [False, True])
def test_its_tensors_are_saved_by_their_names(tmp_path, sharded):
    v = tf.get_variable("v", initializer=np.arange(6.0).reshape(3, 2))
    w = tf.get_variable("w", initializer=7)
    saver = tf.train.Saver([w, _Halves(v, "halves")], sharded=sharded)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        path = saver.save(sess, str(tmp_path / "ckpt"))
    assert dict(tf.train.list_variables(path)) == {"halves_left": [3], "halves_right": [3], "w": []}
    with tf.Session() as sess:
        saver.restore(sess, path)
        np.testing.assert_array_equal(sess.run(v), np.arange(6.0).reshape(3, 2))
        assert sess.run(w) == 7


def test_by_the_collection_and_the_names_of_scripts(tmp_path):
    v = tf.get_variable("v", initializer=np.ones((3, 2)))
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, _Halves(v, "halves"))
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "ckpt"))
    assert [name for name, _ in tf.train.list_variables(path)] == ["halves_left", "halves_right", "v"]
    assert BaseSaverBuilder.SaveableObject is SaveableObject and BaseSaverBuilder.SaveSpec is SaveSpec


def test_wrong_ones_are_refused(tmp_path):
    v = tf.get_variable("v", initializer=np.ones((3, 2)))
    with pytest.raises(ValueError, match="same name"):
        tf.train.Saver([_Halves(v, "halves"), _Halves(v, "halves")])
    with pytest.raises(TypeError, match="SaveableObjects"):
        tf.train.Saver([object()])
    with pytest.raises(AssertionError, match="callable"):
        SaveSpec(lambda: v, "", "name")
    assert SaveSpec(lambda: v + 1, "", "name", v.dtype, "/cpu:0").tensor.device == "/device:CPU:0"
    saver, other = tf.train.Saver([_Halves(v, "halves")]), tf.train.Saver([_Halves(v, "other")])
    with tf.Session() as sess:
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "ckpt"))
        with pytest.raises(tf.errors.NotFoundError, match="other_left"):
            other.restore(sess, path)
