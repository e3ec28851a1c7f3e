"""The wrong programs of tests/errors raise in TensorFlow what their table says."""

from __future__ import annotations

import pytest

from tests.errors.programs import WRONG, Row
from tests.errors.test_wrong_programs import class_of
from tests.oracle.engines import tf

_WITHOUT_KERAS_3 = {"dense_open_size": "tf.layers is not in a TensorFlow with Keras 3"}


@pytest.mark.parametrize("row", WRONG, ids=[row[0] for row in WRONG])
def test_tensorflow_raises_the_same(row: Row) -> None:
    name, program, error, _ = row
    if name in _WITHOUT_KERAS_3:
        pytest.skip(_WITHOUT_KERAS_3[name])
    with tf.Graph().as_default(), pytest.raises(class_of(error, tf.errors)):
        program(tf)
