"""Programs of models and of layers that users write, for the tests and for compute_values.py.

Each gives (feeds, fetches, weights, facts): facts are compared as they are.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.keras.layer_cases import FLAT, IDS, PADDED, STEPS, print_of, wave, weight


def functional(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a = la.Input((6,), name="a")
    out = la.Dense(1)(la.BatchNormalization()(la.Dense(5, activation="relu")(a)))
    model = keras.Model(a, out)
    p = tf.placeholder(tf.float32, [None, 6])
    facts = [model.name, [x.name for x in model.layers], model.input_shape, model.output_shape, model.count_params()]
    return {a: FLAT, p: FLAT * 2}, [out, model(p)], model.weights, [*facts, len(model.updates), len(model.inputs)]


def several_inputs(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a, b = keras.Input(shape=(6,)), keras.Input(shape=(5,), dtype="int32")
    e = la.Flatten()(la.Embedding(7, 3)(b))
    shared = la.Dense(4, name="shared")
    joined, added = la.concatenate([shared(a), la.Dense(4)(e)]), la.add([shared(a), la.Dense(4)(e)])
    outs = [la.Dense(1, name="o1")(joined), la.Dense(2, name="o2")(added)]
    model = keras.models.Model(inputs=[a, b], outputs=outs, name="two")
    p, q = tf.placeholder(tf.float32, [None, 6]), tf.placeholder(tf.int32, [None, 5])
    facts = [model.name, [x.name for x in model.layers], model.input_shape, model.output_shape]
    return {p: FLAT, q: IDS}, list(model([p, q])), model.weights, facts


def ops_between(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a = keras.Input((6,))
    h = tf.nn.relu(la.Dense(4, name="d1")(a)) * 2.0 + 1.0
    out = tf.reduce_sum(la.Dense(2, name="d2")(tf.concat([h, a], 1)), 1)
    model = keras.Model(a, out)
    p = tf.placeholder(tf.float32, [None, 6])
    return {p: FLAT}, [model(p)], model.weights, []


def nested(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a, b = keras.Input((6,)), keras.Input((6,))
    inner = keras.Model(a, la.Dense(3, activation="tanh")(a))
    model = keras.Model(b, la.Dense(2)(inner(b)))
    outer = keras.Sequential([model, la.Dense(1)])
    p = tf.placeholder(tf.float32, [None, 6])
    return {p: FLAT}, [outer(p)], outer.weights, [len(outer.layers), len(model.layers), outer.name]


def sequential(tf: Any, keras: Any) -> Any:
    la = keras.layers
    model = keras.Sequential(
        [
            la.Dense(5, input_shape=(6,), activation="relu"),
            la.Dropout(0.5),
            la.Dense(3, kernel_regularizer=keras.regularizers.l2(0.1)),
            la.Activation("softmax"),
        ]
    )
    p = tf.placeholder(tf.float32, [None, 6])
    facts = [model.name, [x.name for x in model.layers], model.input_shape, model.output_shape, model.count_params()]
    return {p: FLAT, model.input: FLAT}, [model(p), model.output, *model.losses], model.weights, facts


def sequential_built_late(tf: Any, keras: Any) -> Any:
    la = keras.layers
    model = keras.models.Sequential(name="net")
    for layer in (la.Dense(5), la.LeakyReLU(), la.Dense(1)):
        model.add(layer)
    p = tf.placeholder(tf.float32, [None, 6])
    return {p: FLAT}, [model(p), model(p * 2)], model.weights, [model.built]


def shared_pool(tf: Any, keras: Any) -> Any:
    la = keras.layers
    pool = la.MaxPooling2D((2, 2), (2, 2), padding="same", data_format="channels_last")
    conv = lambda n: la.Conv2D(n, 3, padding="same", data_format="channels_last", activation=tf.nn.relu)  # noqa: E731
    first = la.Reshape(target_shape=(8, 8, 1), input_shape=(64,))
    model = keras.Sequential([first, conv(3), pool, conv(2), pool, la.Flatten(), la.Dropout(0.4), la.Dense(10)])
    p = tf.placeholder(tf.float32, [None, 64])
    return {p: wave(3, 64)}, [model(p, training=False)], model.weights, [[x.name for x in model.layers]]


def of_a_class(tf: Any, keras: Any) -> Any:
    la = keras.layers

    class Net(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(name="net")
            self.first, self.norm = la.Dense(4, activation="relu"), la.BatchNormalization()
            self.more, self.drop = [la.Dense(3), la.Dense(3, use_bias=False)], la.Dropout(0.5)

        def call(self, x: Any, training: Any = False) -> Any:
            x = self.norm(self.first(x), training=training)
            for layer in self.more:
                x = layer(x)
            return self.drop(x, training=training)

    one, two = Net(), Net()
    p = tf.placeholder(tf.float32, [None, 6])
    out = one(p)
    two(p, training=True)
    facts = [[x.name for x in one.layers], len(two.updates), len(one.trainable_variables), len(one.variables)]
    return {p: FLAT}, [out], one.weights, facts


def layer_of_a_user(tf: Any, keras: Any) -> Any:
    class Cross(keras.layers.Layer):  # type: ignore[misc]
        def __init__(self, count: int = 2, **kwargs: Any):
            super().__init__(**kwargs)
            self.count = count

        def build(self, input_shape: Any) -> None:
            size, make = (int(input_shape[-1]), 1), self.add_weight
            penalty = keras.regularizers.l2(0.01)
            self.kernels = [make(name=f"w{i}", shape=size, regularizer=penalty) for i in range(self.count)]
            self.biases = [make(name=f"b{i}", shape=size, initializer="zeros") for i in range(self.count)]
            super().build(input_shape)

        def call(self, inputs: Any, **kwargs: Any) -> Any:
            first = x = tf.expand_dims(inputs, 2)
            for w, b in zip(self.kernels, self.biases):
                x = tf.matmul(first, tf.tensordot(x, w, axes=(1, 0))) + b + x
            return tf.squeeze(x, axis=2)

        def get_config(self) -> Any:
            return {**super().get_config(), "count": self.count}

    layer = Cross(3)
    p = tf.placeholder(tf.float32, [None, 6])
    out = layer(p)
    again = Cross.from_config(layer.get_config())
    again(p)
    facts = [layer.name, again.count, [w.name for w in again.weights], layer.built]
    return {p: FLAT}, [out, *layer.losses], layer.weights, facts


def layer_of_layers(tf: Any, keras: Any) -> Any:
    la = keras.layers

    class Block(la.Layer):  # type: ignore[misc]
        def __init__(self, units: int, **kwargs: Any):
            super().__init__(**kwargs)
            self.scale = self.add_weight(name="scale", shape=(), initializer="ones")
            self.whole, self.parts = la.Dense(units), {"n": la.Dense(units, name="n")}

        def call(self, x: Any) -> Any:
            return self.whole(x) * self.scale + self.parts["n"](x)

    first, second = Block(3), Block(2)
    p = tf.placeholder(tf.float32, [None, 6])
    return {p: FLAT}, [second(first(p))], first.weights + second.weights, []


def scopes(tf: Any, keras: Any) -> Any:
    la = keras.layers
    p = tf.placeholder(tf.float32, [None, 6])
    with tf.variable_scope("a"):
        x = la.Dense(4)(p)
    with tf.variable_scope("a", reuse=tf.AUTO_REUSE):
        x = la.Dense(4, name="x")(x)
    with tf.name_scope("ns"):
        layer = la.Dense(3)
        y = layer(x)
    z = layer(x * 2)
    return {p: FLAT}, [y, z], tf.trainable_variables(), [y.name, z.name]


def frozen(tf: Any, keras: Any) -> Any:
    la = keras.layers
    model = keras.Sequential([la.Dense(5, input_shape=(6,)), la.BatchNormalization(), la.Dense(3)])
    names = lambda variables: [v.name for v in variables]  # noqa: E731
    facts: list[Any] = []
    for layer, value in ((model.layers[0], False), (model, False), (model, True)):
        layer.trainable = value
        facts += [names(model.trainable_weights), names(model.non_trainable_weights), len(model.updates)]
    la.Embedding(3, 2, trainable=False)(tf.constant([1]))
    dense = la.Dense(2, trainable=False)
    dense(tf.zeros([2, 2]))
    facts += [names(tf.trainable_variables()), names(dense.trainable_weights), names(dense.weights)]
    return {model.input: FLAT}, [model.output], model.weights, facts


def names_of_layers(tf: Any, keras: Any) -> Any:
    la = keras.layers
    made = [la.Dense(3), la.Dense(3), la.Conv2D(1, 1), la.Conv2D(1, 1), la.LSTM(2), la.GRU(3), la.BatchNormalization()]
    made += [la.ReLU(), la.ELU(), la.PReLU(), la.LeakyReLU(), la.GlobalAveragePooling1D(), la.MaxPooling2D()]
    made += [la.Dense(2, name="dense_1"), la.Dense(2), la.Lambda(lambda x: x)]
    inputs = [la.Input((2,)), la.Input((2,))]
    return {}, [tf.constant(1.0)], [], [[x.name for x in made], [x.name for x in inputs]]


def shapes_told(tf: Any, keras: Any) -> Any:
    la = keras.layers
    asked = [
        (la.Dense(3), (None, 4)),
        (la.Conv2D(3, 2, strides=2), (None, 8, 8, 3)),
        (la.Flatten(), (None, 3, 4)),
        (la.LSTM(3, return_sequences=True), (None, 5, 2)),
        (la.Embedding(4, 3), (None, 5)),
        (la.MaxPooling1D(2), (None, 8, 3)),
        (la.UpSampling2D(2), (None, 4, 4, 1)),
        (la.Reshape((2, -1)), (None, 4, 3)),
        (la.GlobalMaxPooling2D(), (2, 4, 4, 3)),
        (la.RepeatVector(3), (None, 2)),
        (la.BatchNormalization(), (None, 4)),
    ]
    told = [tf.TensorShape(layer.compute_output_shape(tf.TensorShape(s))).as_list() for layer, s in asked]
    told.append(tf.TensorShape(la.Concatenate().compute_output_shape([(None, 3), (None, 4)])).as_list())
    return {}, [tf.constant(1.0)], [], told


def first_states(tf: Any, keras: Any) -> Any:
    la = keras.layers
    p = tf.placeholder(tf.float32, [None, 5, 3])
    out, h, c = la.LSTM(4, return_state=True)(p)
    more = la.LSTM(4, return_sequences=True)(p, initial_state=[h, c])
    return {p: STEPS}, [out, h, c, more, la.GRU(4)([p, h])], tf.global_variables(), []


def cell_of_a_user(tf: Any, keras: Any) -> Any:
    la = keras.layers

    class Cell(la.Layer):  # type: ignore[misc]
        def __init__(self, units: int, **kwargs: Any):
            self.units = self.state_size = units
            super().__init__(**kwargs)

        def build(self, shape: Any) -> None:
            self.w = self.add_weight(shape=(int(shape[-1]), self.units), name="w")
            self.u = self.add_weight(shape=(self.units, self.units), name="u")
            self.built = True

        def call(self, x: Any, states: Any) -> Any:
            h = tf.tanh(tf.matmul(x, self.w) + tf.matmul(states[0], self.u))
            return h, [h]

    p = tf.placeholder(tf.float32, [None, 5, 3])
    one, two = la.RNN(Cell(4), return_sequences=True), la.RNN([Cell(4), Cell(2)])
    fetches = [one(p), two(p)]
    return {p: STEPS}, fetches, one.weights + two.weights, []


def masks(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a = keras.Input((5,), dtype="int32")
    h = la.LSTM(4, return_sequences=True)(la.Dropout(0.1)(la.Embedding(7, 3, mask_zero=True)(a)))
    out = la.LSTM(2)(la.TimeDistributed(la.Dense(2))(h))
    model = keras.Model(a, out)
    p = tf.placeholder(tf.int32, [None, 5])
    return {p: PADDED, a: PADDED}, [out, model(p)], model.weights, []


def masks_merged(tf: Any, keras: Any) -> Any:
    la = keras.layers
    a = keras.Input((5,), dtype="int32")
    e = la.Embedding(7, 3, mask_zero=True)(a)
    seen = la.Attention()([e, e])
    outs = [seen, la.GlobalAveragePooling1D()(seen), la.AdditiveAttention()([e, e])]
    outs += [la.GRU(3)(la.Concatenate()([e, e])), la.GRU(2)(la.add([e, e]))]
    return {a: PADDED}, outs, tf.global_variables(), []


PROGRAMS = {
    f.__name__: f for f in (
        functional, several_inputs, ops_between, nested, sequential, sequential_built_late, shared_pool, of_a_class,
        layer_of_a_user, layer_of_layers, scopes, frozen, names_of_layers, shapes_told, first_states, cell_of_a_user,
        masks, masks_merged,
    )
}  # fmt: skip


def run(tf: Any, keras: Any, name: str) -> dict[str, Any]:
    with tf.Graph().as_default() as graph:
        feeds, fetches, weights, facts = PROGRAMS[name](tf, keras)
        with tf.Session(graph=graph) as session:
            session.run(tf.global_variables_initializer())
            for place, v in enumerate(weights):
                v.load(weight(v.name, place, v.shape.as_list()), session)
            values = session.run(fetches, feeds)
        told = np.array(facts, object).tolist()  # tuples of shapes as they are
        return {"names": [v.name for v in weights], "facts": repr(told), "out": [print_of(v) for v in values]}
