"""Columns put together and taken apart in several steps: the same bits in one, and what stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
import sparkflow_runtime.kernels.table  # noqa: F401 - registers the ops
from sparkflow_runtime.master.passes import Optimizer
from sparkflow_runtime.master.prune import prune
from sparkflow_runtime.wire.protos import GraphDef, RewriterConfig

X = np.arange(60, dtype=np.float32).reshape(5, 12)


def optimized(fetches: list[Any], feeds: tuple[str, ...] = ("x:0",)) -> GraphDef:
    nodes = {n.name: n for n in tf.get_default_graph().as_graph_def(add_shapes=True).node}
    names = [f.name for f in fetches]
    return Optimizer().optimize(prune(nodes, list(feeds), names, []), list(feeds), names, sources=nodes)


def ops(graph: GraphDef) -> Counter[str]:
    return Counter(n.op for n in graph.node)


def x(*shape: int | None) -> Any:
    return tf.placeholder(tf.float32, shape or [None, 12], "x")


JOINED: dict[str, Callable[[Any], Any]] = {
    "columns beside columns": lambda x: tf.concat([x, tf.concat([x * 2.0, x * 3.0], 1)], 1),
    "from the last axis": lambda x: tf.concat([tf.concat([x * 2.0, x], -1), tf.concat([x, x * 3.0], 1)], -1),
    "three deep": lambda x: tf.concat([x, tf.concat([x * 5.0, tf.concat([x * 2.0, x * 3.0], 1)], 1)], 1),
}


@pytest.mark.parametrize("how", JOINED)
def test_columns_are_laid_side_by_side_once(graph: Any, how: str) -> None:
    made = optimized([JOINED[how](x())])
    assert ops(made)["ConcatV2"] == 1


APART: dict[str, Callable[[Any], Any]] = {
    "a slice of a slice": lambda x: tf.slice(tf.slice(x, [1, 2], [-1, 7]), [0, 3], [3, -1]),
    "three deep": lambda x: tf.slice(tf.slice(tf.slice(x, [0, 1], [-1, 10]), [1, 0], [3, -1]), [1, 2], [-1, 3]),
    "a column of what has three axes": lambda x: flat(tf.slice(tf.reshape(x, [-1, 1, 12]), [0, 0, 4], [-1, 1, 3]), 3),
    "a row of it": lambda x: flat(tf.slice(tf.reshape(x, [-1, 4, 3]), [0, 2, 0], [-1, 1, 3]), 3),
    "the last row": lambda x: flat(tf.slice(tf.reshape(x, [-1, 4, 3]), [0, 3, 0], [-1, -1, -1]), 3),
    "the last columns": lambda x: flat(tf.slice(tf.reshape(x, [-1, 1, 12]), [0, 0, 9], [-1, -1, -1]), 3),
    "a part of a row": lambda x: flat(tf.slice(tf.reshape(x, [-1, 4, 3]), [0, 2, 1], [-1, 1, 2]), 2),
    "of what always had three": lambda x: flat(tf.slice(tf.stack([x, x + 1.0, x * 2.0], 1), [0, 1, 3], [-1, 1, 4]), 4),
    "a sum of such": lambda x: flat(tf.add_n([part(x, [-1, 1, 12], [0, 0, 6]), part(x, [-1, 4, 3], [0, 1, 0])]), 3),
}


def flat(rows: Any, width: int) -> Any:
    return tf.reshape(rows, [-1, width])


def part(x: Any, shape: list[int], begin: list[int]) -> Any:
    return tf.slice(tf.reshape(x, shape), begin, [-1, 1, 3])


@pytest.mark.parametrize("how", APART)
def test_parts_are_taken_of_the_whole(graph: Any, how: str) -> None:
    made = optimized([APART[how](x()) * 2.0])
    sliced = [n for n in made.node if n.op == "Slice"]
    assert len(sliced) == (2 if "sum" in how else 1)
    assert not ops(made)["Reshape"] or "always" in how
    assert all(n.input[0] == "x" for n in sliced) or "always" in how


@pytest.mark.parametrize("batch", [None, 5])
@pytest.mark.parametrize("how", [*JOINED, *(f"{how} apart" for how in APART)])
def test_the_same_bits_and_gradients(how: str, batch: int | None) -> None:
    written, found = JOINED.get(how) or APART[how.removesuffix(" apart")], []
    for on in (RewriterConfig.ON, RewriterConfig.OFF):
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.remapping = on
        with tf.Graph().as_default(), tf.Session(config=config) as session:
            given = x(batch, 12)
            out = written(given)
            found.append(session.run([out, tf.gradients(tf.square(out), given)[0]], {given: X}))
    for a, b in zip(*found, strict=True):
        assert a.shape == b.shape and a.tobytes() == b.tobytes()


KEPT: dict[str, tuple[str, int, Callable[[Any], list[Any]]]] = {
    "what others take too": ("ConcatV2", 2, lambda x: [tf.concat([x, (c := tf.concat([x, x], 1))], 1), c * 2.0]),
    "what is there twice": ("ConcatV2", 2, lambda x: [tf.concat([c := tf.concat([x, x], 1), c], 1)]),
    "rows below rows": ("ConcatV2", 2, lambda x: [tf.concat([x, tf.concat([x, x], 0)], 0)]),
    "columns below": ("ConcatV2", 2, lambda x: [tf.concat([tf.concat([x, x], 1), tf.concat([x, x], 1) * 2.0], 0)]),
    "what is asked for": ("ConcatV2", 2, lambda x: [c := tf.concat([x, x], 1), tf.concat([x, c], 1)]),
    "places that a step gives": (
        "Slice", 2, lambda x: [tf.slice(tf.slice(x, [0, 1], [-1, 4]), tf.cast(x[0, :2], "int32"), [1, 1])]
    ),
    "two rows": (
        "Reshape", 2, lambda x: [tf.reshape(tf.slice(tf.reshape(x, [-1, 4, 3]), [0, 1, 0], [-1, 2, 3]), [-1, 3])]
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", KEPT)
def test_what_stays(graph: Any, why: str) -> None:
    op, count, written = KEPT[why]
    assert ops(optimized(written(x())))[op] == count


def test_a_slice_that_is_fed_or_fetched(graph: Any) -> None:
    given = x()
    whole = tf.slice(given, [0, 2], [-1, 7])
    part = tf.slice(whole, [0, 1], [-1, 2])
    with tf.Session() as session:
        assert session.run([whole, part], {given: X})[1].tolist() == X[:, 3:5].tolist()
        assert session.run(part, {whole: X[:, :7]}).tolist() == X[:, 1:3].tolist()


def test_what_hints_name_inputs_of_stays(graph: Any) -> None:
    given = x()
    inner = tf.concat([given, given * 2.0], 1)
    outer = tf.concat([given, inner], 1)
    outer.op._set_attr("_swap_to_host", tf.AttrValue(list=tf.AttrValue.ListValue(i=[1])))
    assert ops(optimized([outer]))["ConcatV2"] == 2


def test_what_is_doubled_again_and_again_stays(graph: Any) -> None:
    """Or a chain of twenty would have a million inputs."""
    ids, tables = tf.placeholder(tf.int64, [None], "ids"), [tf.get_variable(f"t{k}", [5, 2]) for k in range(2)]
    wide = tf.concat([tf.gather(t, ids) for t in tables], 1)
    for _ in range(10):
        wide = tf.concat([wide, wide], 1)
    made = optimized([wide], ("ids:0",))
    assert ops(made)["ConcatV2"] == 11 and max(len(n.input) for n in made.node) == 3


def test_a_slice_that_reaches_past_the_rows_there_are(graph: Any) -> None:
    rows = x()
    part = tf.slice(tf.slice(rows, [0, 0], [10, 12]), [0, 2], [3, 4])
    assert ops(optimized([part]))["Slice"] == 2
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=r"size \(10, 12\)"):
        session.run(part, {rows: X})  # of five rows
