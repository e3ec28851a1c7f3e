"""Inputs at the edges of ops, each of which once gave another value than TensorFlow's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.apply import apply_op

pytestmark = pytest.mark.usefixtures("graph")


def _run(fetches: Any) -> Any:
    with tf.Session() as sess:
        return sess.run(fetches)


def test_a_line_without_a_selected_column_is_refused() -> None:
    for line in ("1,2", "1,2\r"):
        with pytest.raises(tf.errors.InvalidArgumentError, match="fields"):
            _run(tf.io.decode_csv([line], [["a"], ["d"]], select_cols=[0, 2]))


def test_a_delimiter_of_two_characters_is_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="only 1 character"):
        _run(tf.io.decode_csv(["a;;b"], [["a"], ["d"]], field_delim=";;"))


def test_pieces_up_to_the_last_and_what_follows() -> None:
    found = [tf.strings.split(["a b", " a "], maxsplit=n, result_type="RaggedTensor") for n in (0, 1, 2)]
    assert [_run(t).to_list() for t in found] == [
        [[b"a b"], [b" a "]],
        [[b"a", b"b"], [b"a", b""]],
        [[b"a", b"b", b""], [b"a"]],
    ]


def test_texts_of_truth_values_have_no_width() -> None:
    assert _run(tf.as_string([True, False], width=8, fill="0")).tolist() == [b"true", b"false"]


def test_empty_strings_at_the_beginning_of_a_segment_are_joined_without_a_separator() -> None:
    joined = tf.strings.unsorted_segment_join(["", "e", "a", "", "c"], [0, 0, 1, 1, 1], 2, separator="-")
    assert _run(joined).tolist() == [b"e", b"a--c"]


def test_axes_without_strings_are_joined() -> None:
    x = np.empty((2, 0), object)
    assert _run(tf.strings.reduce_join(x, axis=1)).tolist() == [b"", b""]
    assert _run(tf.strings.reduce_join(x, axis=0, keepdims=True)).shape == (1, 0)
    assert tf.strings.reduce_join([["a"]]).shape.as_list() == []


def test_hexadecimal_numbers() -> None:
    assert _run(tf.strings.to_number(["0x1F", "-0x1.8p1"])).tolist() == [31.0, -3.0]


def test_serialized_tensors_have_all_their_values() -> None:
    raw = _run(tf.io.serialize_tensor(tf.ones([2, 3], tf.int32)))
    assert np.asarray(raw, object).item().endswith(np.ones(6, np.int32).tobytes())


def test_nothing_is_below_nan() -> None:
    ordered, values = tf.constant([[1.0, 2.0]]), tf.constant([[np.nan, 3.0]], tf.float32)
    assert _run(apply_op("LowerBound", [ordered, values], {})).tolist() == [[0, 2]]
    assert _run(apply_op("UpperBound", [ordered, values], {})).tolist() == [[2, 2]]


def test_the_place_of_an_order_statistic_is_a_scalar() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="scalar"):
        _run(apply_op("NthElement", [tf.constant([3.0, 1.0]), tf.placeholder_with_default([1], None)], {}))


def test_no_class_is_in_the_first_of_none() -> None:
    assert _run(tf.nn.in_top_k(np.zeros((2, 0), np.float32), [0, 1], 1)).tolist() == [False, False]


def test_truth_values_are_their_own_conjugates() -> None:
    x = np.array([[True, False]])
    assert _run(apply_op("ConjugateTranspose", [x, [1, 0]], {})).dtype == np.bool_


@pytest.mark.parametrize("equation, wanted", [("ij->", 36), ("ii->i", [0, 4, 8])])
def test_einsum_of_one_bfloat16(equation: str, wanted: Any) -> None:
    x = np.arange(9).reshape(3, 3).astype(ml_dtypes.bfloat16)
    found = _run(tf.einsum(equation, x))
    assert found.dtype == ml_dtypes.bfloat16 and found.tolist() == wanted


def test_an_inverse_of_halves() -> None:
    found = _run(tf.linalg.inv(np.array([[2, 1], [1, 3]], np.float16)))
    np.testing.assert_allclose(found.astype(float), np.linalg.inv([[2, 1], [1, 3]]), atol=1e-3)
    assert found.dtype == np.float16


@pytest.mark.parametrize("chain", [False, True])
def test_infinities_do_not_leak_as_nan(chain: bool) -> None:
    x = tf.placeholder(tf.float32, [3])
    y = tf.nn.leaky_relu(x * 1.0 if chain else x, alpha=0.0)
    with tf.Session() as sess:
        assert sess.run(y + 1.0 if chain else y, {x: [np.inf, -1, 2]}).tolist() == (
            [np.inf, 1, 3] if chain else [np.inf, 0, 2]
        )


def test_gradients_of_boxes_need_cells() -> None:
    parts = [np.zeros((1, 0, 2, 1), np.float32), np.ones((1, 2, 2, 1), np.float32), [[0.0, 0, 1, 1]], [0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="above 0"):
        _run(apply_op("CropAndResizeGradBoxes", parts, {}))


@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("kind", ["int8", "uint8", "int32", "uint32", "int64", "uint64"])
def test_casts_that_saturate_end_inside_the_range(source: Any, kind: str) -> None:
    """A float32 of 1e10 came to -2 ** 31 as int32."""
    x = np.array([np.inf, -np.inf, 1e4, -1e4, 3]).astype(source)
    found, limits, own = _run(tf.saturate_cast(x, kind)), np.iinfo(kind), ml_dtypes.finfo(source)
    least, most = max(limits.min, float(own.min)), min(limits.max, float(own.max))
    wanted = [min(max(float(v), least), most) for v in x]
    np.testing.assert_allclose(found.astype(float), wanted, rtol=1e-2)


def test_images_of_signed_numbers_saturate_before_they_are_scaled() -> None:
    image = tf.image.convert_image_dtype(np.array([-1, 1, 127], np.int8), tf.uint8, saturate=True)
    assert _run(image).tolist() == [0, 2, 254]
