"""Programs with branches and loops, written once for any module with TensorFlow 1's names.

A program takes the module and returns (feeds, fetches): what to feed (tensor -> value) and a list of tensors, gradients
among them. tests/ops/test_control_flow_programs.py holds the values that TensorFlow 2.21 computed for them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], tuple[dict[Any, Any], list[Any]]]
PROGRAMS: dict[str, Program] = {}


def program(make: Program) -> Program:
    PROGRAMS[make.__name__] = make
    return make


def _fed(tf: Any, *shape: int, start: float = 0.1, known: bool = True) -> tuple[Any, np.ndarray]:
    """A float64 placeholder and a value for it: start, start + 0.1, ..."""
    value = (start + 0.1 * np.arange(np.prod(shape, dtype=int))).reshape(shape)
    return tf.placeholder(tf.float64, shape if known else None), value


def _flag(tf: Any, value: bool) -> tuple[Any, bool]:
    return tf.placeholder(tf.bool, []), value


def _each_way(make: Callable[[Any, Any, bool], tuple[dict[Any, Any], list[Any]]]) -> None:
    """Two programs of one: with its predicate fed as true, and as false."""
    for way in (True, False):

        def one(tf: Any, way: bool = way) -> tuple[dict[Any, Any], list[Any]]:
            p, value = _flag(tf, way)
            feeds, fetches = make(tf, p, way)
            return {p: value, **feeds}, fetches

        PROGRAMS[f"{make.__name__}_{way}".lower()] = one


# ---------------------------------------------------------------------- branches


@_each_way
def cond_gradient(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 3)
    w, vw = _fed(tf, 3, start=1.0)
    y = tf.cond(p, lambda: tf.reduce_sum(x * x * w), lambda: tf.reduce_sum(tf.exp(x)))
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@_each_way
def cond_unknown_shape(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2, 2, known=False)
    w, vw = _fed(tf, 2, 2, start=1.0, known=False)
    y = tf.cond(p, lambda: x * w, lambda: w)
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@_each_way
def cond_structure(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    out = tf.cond(p, lambda: {"a": x * 2.0, "b": (x + 1.0, 3)}, lambda: {"a": x, "b": (x * x, 4)})
    total = tf.reduce_sum(out["a"] * out["b"][0])
    return {x: vx}, [out["a"], *out["b"], *tf.gradients(total, x)]


@_each_way
def cond_nested(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)

    def inner() -> Any:
        return tf.cond(tf.reduce_sum(x) > 1.0, lambda: x * 5.0, lambda: x * x * x)

    y = tf.cond(p, inner, lambda: x - 1.0)
    return {x: vx}, [y, *tf.gradients(y, x)]


@_each_way
def cond_second_order(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    y = tf.cond(p, lambda: tf.reduce_sum(x * x * x), lambda: tf.reduce_sum(tf.exp(2.0 * x)))
    (dx,) = tf.gradients(y, x)
    return {x: vx}, [dx, *tf.gradients(dx, x)]


@_each_way
def cond_gather(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    """The gradient of a table that one branch looks up is rows, or none of them."""
    table, value = _fed(tf, 4, 2)
    y = tf.cond(p, lambda: tf.gather(table, [1, 3, 1]), lambda: tf.zeros([3, 2], tf.float64))
    (rows,) = tf.gradients(tf.reduce_sum(y * y), table)
    return {table: value}, [y, tf.convert_to_tensor(rows)]


@_each_way
def cond_assigns(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    """Ops without inputs, and references to variables, inside branches."""
    v = tf.Variable(np.float64(1.0), name="v")
    with tf.control_dependencies([v.initializer]):
        done = tf.cond(p, lambda: tf.assign_add(v, 10.0), lambda: tf.assign_sub(v, 5.0))
    return {}, [done]


@_each_way
def cond_gradient_inside(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    y = tf.reduce_sum(x * x * x)
    return {x: vx}, [tf.cond(p, lambda: tf.gradients(y, x)[0], lambda: x)]


@program
def case_first(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    s = tf.reduce_sum(x)
    pairs = [(s > 5.0, lambda: x * 2.0), (s > 0.2, lambda: x * 3.0), (s > 0.1, lambda: x * 4.0)]
    y = tf.case(pairs, default=lambda: x, exclusive=False)
    z = tf.case([(s > 5.0, lambda: x * 2.0), (s < 5.0, lambda: x * x)], exclusive=True)
    return {x: vx}, [y, z, *tf.gradients([y, z], x)]


# ---------------------------------------------------------------------- loops


@program
def while_power(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 3)
    _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * x), [0, tf.ones_like(x)])
    return {x: vx}, [y, *tf.gradients(y, x)]


@program
def while_two_variables(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    a, va = _fed(tf, 2)
    b, vb = _fed(tf, 2, start=1.0)

    def body(i: Any, a: Any, b: Any) -> Any:
        return i + 1, tf.sin(a) * b, b + a * 0.5

    _, u, w = tf.while_loop(lambda i, *_: i < 3, body, [tf.constant(0), a, b])
    return {a: va, b: vb}, [u, w, *tf.gradients([u, w], [a, b]), *tf.gradients(u, b)]


@program
def while_matmul(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A captured matrix; the state's rows are not known statically."""
    w, vw = _fed(tf, 2, 2)
    h = tf.placeholder(tf.float64, [None, 2])
    _, out = tf.while_loop(lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + 0.1)), [0, h])
    return {w: vw, h: np.full((3, 2), 0.3)}, [out, *tf.gradients(out, [w, h])]


@program
def while_data_dependent(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, start=1.5)
    y, n = tf.while_loop(lambda y, n: y < 50.0, lambda y, n: (y * x, n + 1), [x, 0])
    return {x: vx}, [y, n, *tf.gradients(y, x)]


@program
def while_no_iteration(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    w, vw = _fed(tf, 2)
    _, y = tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * w), [0, x])
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@program
def while_nested(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    w, vw = _fed(tf, 2, start=0.5)

    def outer(i: Any, y: Any) -> Any:
        _, z = tf.while_loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, z * w + tf.sin(z)), [0, y])
        return i + 1, z * x

    _, y = tf.while_loop(lambda i, y: i < 3, outer, [0, x])
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@program
def while_cond_inside(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A branch in a loop: values of the branch, and of one not taken, are recalled."""
    x, vx = _fed(tf, 2)
    w, vw = _fed(tf, 2, start=0.5)

    def body(i: Any, y: Any) -> Any:
        even = tf.equal(i % 2, 0)
        return i + 1, tf.cond(even, lambda: tf.exp(y * x) * y, lambda: tf.sin(y) * w + y)

    _, y = tf.while_loop(lambda i, y: i < 5, body, [0, x])
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@program
def while_cond_unknown_shape(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2, known=False)
    w, vw = _fed(tf, 2, start=0.5, known=False)

    def body(i: Any, y: Any) -> Any:
        inner = lambda: tf.cond(i > 2, lambda: y * w, lambda: y + tf.tanh(w))  # noqa: E731
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: y * x, inner)

    _, y = tf.while_loop(lambda i, y: i < 6, body, [0, x], [tf.TensorShape([]), tf.TensorShape(None)])
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@_each_way
def cond_loop_inside(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    w, vw = _fed(tf, 2, start=0.5)

    def loop() -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * w + y * y), [0, x])[1]

    y = tf.cond(p, loop, lambda: x * w)
    return {x: vx, w: vw}, [y, *tf.gradients(y, [x, w])]


@program
def while_loop_and_cond_deep(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A loop in a branch in a loop."""
    x, vx = _fed(tf, 2)

    def body(i: Any, y: Any) -> Any:
        def inner() -> Any:
            return tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, z * x + 0.1), [0, y])[1]

        return i + 1, tf.cond(i > 1, inner, lambda: y * y + x)

    _, y = tf.while_loop(lambda i, y: i < 4, body, [0, x])
    return {x: vx}, [y, *tf.gradients(y, x)]


@program
def while_gather(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Rows of a captured table: its gradient is one row an iteration."""
    table, value = _fed(tf, 4, 2)

    def body(i: Any, s: Any) -> Any:
        return i + 1, s * 2.0 + tf.gather(table, [i, 1])

    _, s = tf.while_loop(lambda i, s: i < 3, body, [0, tf.zeros([2, 2], tf.float64)])
    (rows,) = tf.gradients(tf.reduce_sum(s * s), table)
    return {table: value}, [s, tf.convert_to_tensor(rows)]


@program
def while_grows(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    invariants = [tf.TensorShape([]), tf.TensorShape([None])]
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.concat([y, y * x[:1]], 0)), [0, x], invariants)
    return {x: vx}, [y, *tf.gradients(y, x)]


@program
def while_maximum_iterations(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    y = tf.while_loop(lambda y: tf.constant(True), lambda y: y * x, [x], maximum_iterations=3)
    z = tf.while_loop(lambda z: z < 2, lambda z: [z + 1], [0], return_same_structure=True)
    return {x: vx}, [y, z[0], *tf.gradients(y, x)]


@program
def while_no_back_prop(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x], back_prop=False)
    return {x: vx}, [y, *tf.gradients(y + x, x)]


@program
def while_structure(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)

    def body(i: Any, state: Any) -> Any:
        return i + 1, {"h": state["h"] * x, "c": [state["c"][0] + state["h"]]}

    _, out = tf.while_loop(lambda i, s: i < 3, body, [0, {"h": x, "c": [x * 0.0]}])
    return {x: vx}, [out["h"], out["c"][0], *tf.gradients(out["c"][0], x)]


@program
def while_twice(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Two loops one after the other, and gradients taken twice."""
    x, vx = _fed(tf, 2)
    _, y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * x), [0, x])
    _, z = tf.while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, tf.sin(z) * y), [0, y])
    return {x: vx}, [z, *tf.gradients(z, x), *tf.gradients(z, y), *tf.gradients(y, x)]


@program
def while_unused_exit(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A variable of which only the effect on another counts, and one that no y depends on."""
    x, vx = _fed(tf, 2)
    w, vw = _fed(tf, 2, start=0.5)
    body = lambda i, a, b, c: (i + 1, a * w, b + a * a, c * x)  # noqa: E731
    _, _, b, _ = tf.while_loop(lambda i, *_: i < 3, body, [0, x, x * 0.0, x])
    return {x: vx, w: vw}, [b, *tf.gradients(b, [x, w])]


@program
def while_control_dependencies(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    v = tf.Variable(np.float64(2.0), name="v")
    with tf.control_dependencies([v.initializer]):
        first = tf.identity(x)
    with tf.control_dependencies([first]):

        def body(i: Any, y: Any) -> Any:
            with tf.control_dependencies([tf.assign_add(v, 1.0)]):
                return i + 1, y * x

        n, y = tf.while_loop(lambda i, y: i < 3, body, [0, first], parallel_iterations=1)
    with tf.control_dependencies([n, y]):
        count = tf.identity(v._ref() if hasattr(v, "_ref") else v)
    return {x: vx}, [y, count, *tf.gradients(y, x)]


@program
def while_select_gradient(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Several outputs, and a reduction, in a loop."""
    x, vx = _fed(tf, 4)

    def body(i: Any, y: Any) -> Any:
        a, b = tf.split(y, 2)
        return i + 1, tf.concat([tf.where(a > b, a, b * b), a * tf.reduce_sum(b)], 0) + x

    _, y = tf.while_loop(lambda i, y: i < 3, body, [0, x])
    return {x: vx}, [y, *tf.gradients(y, x)]


# ---------------------------------------------------------------------- TensorArray


@program
def array_elements(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 3, 2)
    ta = tf.TensorArray(tf.float64, size=3).unstack(x)
    a, b = ta.read(0) * 2.0, ta.read(2)
    out = tf.TensorArray(tf.float64, size=2, dynamic_size=True).write(0, a).write(1, b * a).write(2, b)
    y = out.stack()
    return {x: vx}, [y, out.size(), *tf.gradients(y * y, x)]


@program
def array_pieces(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """gather, scatter, split and concat."""
    x, vx = _fed(tf, 6, 2)
    ta = tf.TensorArray(tf.float64, size=3, infer_shape=False).split(x, [1, 3, 2])
    whole = ta.concat()
    rows = tf.TensorArray(tf.float64, size=4, clear_after_read=False).scatter([3, 0, 1, 2], x[:4])
    some = rows.gather([1, 3, 1])
    y = tf.reduce_sum(whole * whole) + tf.reduce_sum(some * some * some)
    return {x: vx}, [whole, some, *tf.gradients(y, x)]


@program
def array_in_loop(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A recurrence over time: reads from one array, writes to another."""
    x, vx = _fed(tf, 4, 2)
    w, vw = _fed(tf, 2, 2)
    xs = tf.TensorArray(tf.float64, size=4).unstack(x)
    ys = tf.TensorArray(tf.float64, size=4)

    def body(t: Any, h: Any, ys: Any) -> Any:
        h = tf.tanh(tf.matmul(h, w) + tf.expand_dims(xs.read(t), 0))
        return t + 1, h, ys.write(t, h)

    _, h, ys = tf.while_loop(lambda t, *_: t < 4, body, [0, tf.zeros([1, 2], tf.float64), ys])
    y = ys.stack()
    return {x: vx, w: vw}, [y, *tf.gradients(h, [x, w]), *tf.gradients(y * y, [x, w])]


@program
def array_in_nested_loop(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A list of its own in each iteration of the outer loop."""
    x, vx = _fed(tf, 2)

    def outer(i: Any, y: Any) -> Any:
        ta = tf.TensorArray(tf.float64, size=3)
        _, ta = tf.while_loop(lambda j, _: j < 3, lambda j, ta: (j + 1, ta.write(j, y * x)), [0, ta])
        return i + 1, tf.reduce_sum(ta.stack(), 0)

    _, y = tf.while_loop(lambda i, y: i < 3, outer, [0, x])
    return {x: vx}, [y, *tf.gradients(y, x)]


@_each_way
def array_in_cond(tf: Any, p: Any, way: bool) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2)
    ta = tf.TensorArray(tf.float64, size=2).write(0, x)
    y = tf.cond(p, lambda: ta.write(1, x * x).stack(), lambda: tf.stack([x, x * 3.0]))
    return {x: vx}, [y, *tf.gradients(y, x)]


@program
def map_of_structure(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 3, 2)
    y = tf.map_fn(lambda row: tf.reduce_sum(row * row), x)
    a, b = tf.map_fn(lambda t: (t[0] * t[1], tf.reduce_sum(t[0])), (x, x + 1.0), dtype=(tf.float64, tf.float64))
    return {x: vx}, [y, a, b, *tf.gradients([y, a, b], x)]


@program
def map_of_variable(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Rows that are not known statically, and a captured table that is looked up."""
    ids = tf.placeholder(tf.int32, [None])
    table, value = _fed(tf, 4, 2)
    y = tf.map_fn(lambda i: tf.gather(table, i) * 2.0, ids, dtype=tf.float64)
    (rows,) = tf.gradients(y * y, table)
    return {ids: [1, 3, 1], table: value}, [y, tf.convert_to_tensor(rows)]


@program
def scans(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 4, 2)
    a = tf.scan(lambda a, row: a * row + 1.0, x)
    b = tf.scan(lambda a, row: tf.sin(a) + tf.reduce_sum(row), x, initializer=tf.constant(0.5, tf.float64))
    c = tf.scan(lambda a, row: a * row, x, reverse=True)
    d, e = tf.scan(lambda a, row: (a[0] + row, a[1] * a[0]), x, initializer=(x[0], x[1]))
    return {x: vx}, [a, b, c, d, e, *tf.gradients([a, b, c, d, e], x)]


@program
def folds(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 4, 2)
    a = tf.foldl(lambda a, row: a * row + 1.0, x)
    b = tf.foldr(lambda a, row: a - row * a, x, initializer=tf.ones([2], tf.float64))
    c = tf.foldr(lambda a, row: a * 2.0 - row, x)
    return {x: vx}, [a, b, c, *tf.gradients([a, b, c], x)]


# ---------------------------------------------------------------------- recurrent nets


def _scope(tf: Any) -> Any:
    """Where variables start as zeros, which needs no random numbers."""
    return tf.variable_scope(tf.get_variable_scope(), initializer=tf.zeros_initializer())


def _net(tf: Any, cell: Any, **how: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A cell over [batch 2, time 3, size 2]; all variables are fed, so that both libraries have the same."""
    x, vx = _fed(tf, 2, 3, 2)
    with _scope(tf):
        out, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float64, **how)
    return _with_weights(tf, x, vx, [out, *_leaves(state)])


def _leaves(state: Any) -> list[Any]:
    return [leaf for part in state for leaf in _leaves(part)] if isinstance(state, (tuple, list)) else [state]


def _with_weights(tf: Any, x: Any, vx: Any, outs: list[Any]) -> tuple[dict[Any, Any], list[Any]]:
    variables = sorted(tf.global_variables(), key=lambda v: v.name)
    feeds = {}
    for k, v in enumerate(variables):
        count = int(np.prod(v.shape.as_list()))
        feeds[v.value()] = (0.3 * np.sin(1.0 + k + np.arange(count))).reshape(v.shape.as_list())
    names = tf.constant([v.op.name for v in variables])
    total = tf.add_n([tf.reduce_sum(o * o) for o in outs])
    return {x: vx, **feeds}, [names, *outs, *tf.gradients(total, [x, *variables])]


@program
def rnn_basic(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    return _net(tf, tf.nn.rnn_cell.BasicRNNCell(2))


@program
def rnn_gru_lengths(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    return _net(tf, tf.nn.rnn_cell.GRUCell(2), sequence_length=[3, 1])


@program
def rnn_basic_lstm(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    return _net(tf, tf.nn.rnn_cell.BasicLSTMCell(2))


@program
def rnn_lstm_projected(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    cell = tf.nn.rnn_cell.LSTMCell(3, use_peepholes=True, cell_clip=0.5, num_proj=2, proj_clip=0.9)
    return _net(tf, cell, sequence_length=[2, 3])


@program
def rnn_stacked(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    cells = [tf.nn.rnn_cell.LSTMCell(2), tf.nn.rnn_cell.DropoutWrapper(tf.nn.rnn_cell.GRUCell(3), output_keep_prob=1.0)]
    return _net(tf, tf.nn.rnn_cell.MultiRNNCell(cells))


@program
def rnn_static(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 2, 3, 2)
    cell = tf.nn.rnn_cell.BasicLSTMCell(2, state_is_tuple=False)
    with _scope(tf):
        outs, state = tf.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float64, sequence_length=[1, 3])
    return _with_weights(tf, x, vx, [*outs, state])


@program
def rnn_both_ways(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    x, vx = _fed(tf, 3, 2, 2)
    cells = [tf.nn.rnn_cell.GRUCell(2), tf.nn.rnn_cell.GRUCell(2)]
    how = {"sequence_length": [2, 3], "dtype": tf.float64, "time_major": True}
    with _scope(tf):
        outs, states = tf.nn.bidirectional_dynamic_rnn(*cells, x, **how)
    return _with_weights(tf, x, vx, [*outs, *states])


# ---------------------------------------------------------------------- gradients inside loops


@program
def map_of_gradients(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Each row's gradient through a loop of its own; nothing orders the rows."""
    x, vx = _fed(tf, 5, 2)

    def slope(row: Any) -> Any:
        _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * row + tf.sin(y)), [0, row])
        return tf.gradients(y, row)[0]

    return {x: vx}, [tf.map_fn(slope, x)]


@program
def while_descends(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """Gradient descent as a loop."""
    x, vx = _fed(tf, 2)

    def body(i: Any, w: Any) -> Any:
        (dw,) = tf.gradients(tf.reduce_sum(tf.square(w * w - x)), w)
        return i + 1, w - 0.1 * dw

    _, w = tf.while_loop(lambda i, w: i < 4, body, [0, tf.ones_like(x)])
    return {x: vx}, [w]


@program
def while_forgets(tf: Any) -> tuple[dict[Any, Any], list[Any]]:
    """A body that starts afresh: the gradient flows only where there is no iteration."""
    x, vx = _fed(tf, 2)
    body = lambda i, y: (i + 1, tf.ones([2], tf.float64))  # noqa: E731
    ends = [tf.while_loop(lambda i, y, n=n: i < n, body, [0, x])[1] for n in (0, 2)]
    return {x: vx}, [*ends, *tf.gradients(ends[0], x), *tf.gradients(ends[1], x)]
