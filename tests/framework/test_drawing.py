"""A graph draws itself for a notebook."""

from __future__ import annotations

import re
from typing import Any
from xml.etree import ElementTree

import sparkflow as tf


def svg(graph: Any) -> Any:
    text = graph._repr_html_()
    assert "http" not in text.replace("http://www.w3.org/2000/svg", ""), "nothing comes over the network"
    return ElementTree.fromstring(re.search(r"<svg.*</svg>", text, re.S).group())  # type: ignore[union-attr]


def titles(tree: Any) -> list[str]:
    return [t.text for t in tree.iter("{http://www.w3.org/2000/svg}title")]


def test_small_graphs_are_drawn_op_by_op(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x<1>"[:1])
    with tf.name_scope("layer"):
        tf.nn.relu(tf.matmul(x, tf.ones([3, 2]), name="product"), name="relu")
    shown = titles(svg(graph))
    assert "Placeholder x: (?, 3) on any device" in shown and "x:0 (?, 3)" in shown
    assert any(t.startswith("MatMul layer/product: (?, 2)") for t in shown)


def test_large_graphs_are_drawn_by_their_scopes(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None, 8])
    for i in range(30):
        x = tf.layers.dense(x, 8, tf.nn.relu, name=f"dense_{i}")
    tf.train.AdamOptimizer().minimize(tf.reduce_sum(x))
    tree = svg(graph)
    boxes = list(tree.iter("{http://www.w3.org/2000/svg}rect"))
    assert 10 < len(boxes) <= 45
    assert any(re.match(r"gradients/ \(\d+ ops: ", t) for t in titles(tree))
    width, height = (float(tree.get(k)) for k in ("width", "height"))
    for box in boxes:
        assert 0 <= float(box.get("x")) < width and 0 <= float(box.get("y")) < height


def test_loops_and_empty_graphs(graph: Any) -> None:
    assert graph._repr_html_() == "<p>Graph of 0 ops</p>"
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.placeholder(tf.int32, [])])
    assert "stroke-dasharray" in graph._repr_html_()
    for _ in range(301):
        tf.placeholder(tf.float32)
    assert "too many to draw" in graph._repr_html_()
