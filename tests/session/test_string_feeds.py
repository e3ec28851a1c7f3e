"""Text that is fed comes as UTF-8, whatever characters are in it."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf


@pytest.mark.parametrize("texts", [["a", "", "é"], ["a\0b", "c"], ["\0"], [], [b"x", "y"], [np.str_("z"), "w"]])
def test_text_as_bytes(texts: list[str | bytes]) -> None:
    x = tf.placeholder(tf.string, [None])
    array = np.empty(len(texts), object)
    array[:] = texts
    with tf.Session() as session:
        for fed in (array, array.reshape(-1)):
            found = session.run(tf.identity(x), {x: fed}).tolist()
            assert found == [t.encode() if isinstance(t, str) else t for t in texts]
