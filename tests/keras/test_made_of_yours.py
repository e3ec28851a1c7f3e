"""Layers of the user's own in models: what they measure, and clones of them. Data sets that are fitted on and on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from tests.keras.training_programs import X, Y

keras, layers = tf.keras, tf.keras.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    keras.backend.clear_session()
    yield
    keras.backend.clear_session()


class _Summed(layers.Layer):
    def call(self, inputs: Any) -> Any:
        self.add_metric(tf.reduce_sum(inputs), name="total", aggregation="mean")
        return inputs * 1.0


class _Power(layers.Layer):
    def __init__(self, power: int = 2, **kwargs: Any):
        super().__init__(**kwargs)
        self.power = power

    def call(self, inputs: Any) -> Any:
        return inputs**self.power

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "power": self.power}


def test_layers_add_metrics() -> None:
    shared = _Summed()
    models = []
    for _ in range(2):  # one metric of the layer, of each model's own inputs
        given = layers.Input((6,))
        models.append(keras.Model(given, layers.Dense(1)(shared(given))))
        models[-1].compile("sgd", "mse", ["mae"])
    assert models[0].metrics_names == ["loss", "mean_absolute_error", "total"]
    for model, times in zip(models, (1.0, 2.0)):
        assert model.train_on_batch(X * times, Y)[2] == pytest.approx((X * times).sum(), rel=1e-4)
    history = models[0].fit(X, Y, batch_size=8, verbose=0).history
    assert history["total"][0] == pytest.approx(np.mean([X[i : i + 8].sum() for i in range(0, len(X), 8)]), rel=1e-3)
    with pytest.raises(ValueError, match="takes a name and aggregation='mean', got name=None"):
        shared.add_metric(tf.constant(1.0))


def test_metrics_of_a_class_are_those_of_the_way_it_is_called() -> None:
    class Dropping(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.drop, self.last = layers.Dropout(0.9), layers.Dense(1)

        def call(self, inputs: Any, training: Any = None) -> Any:
            kept = self.drop(inputs, training=training)
            self.add_metric(tf.reduce_mean(tf.cast(tf.equal(kept, 0.0), tf.float32)), name="zeros", aggregation="mean")
            if training:
                self.add_metric(tf.reduce_sum(inputs), name="trained", aggregation="mean")
            return self.last(kept)

    model = Dropping()
    model.compile("sgd", "mse")
    history = model.fit(X, Y, epochs=2, verbose=0, validation_data=(X, Y)).history
    assert model.metrics_names == ["loss", "zeros", "trained"]
    assert history["zeros"][1] > 0.5 and history["val_zeros"] == [0.0, 0.0]
    assert model.evaluate(X, Y, verbose=0)[1] == 0.0


def test_clones_need_no_custom_objects() -> None:
    inner = keras.Sequential([layers.Dense(4, input_dim=6), _Power(3), layers.Lambda(lambda x: x + 1.0)])
    given = layers.Input((6,))
    times = layers.Lambda(lambda x, by: x * by, arguments={"by": 2.0})
    model = keras.Model(given, times(layers.Dense(1)(inner(given))))
    clone = keras.models.clone_model(model)
    clone.set_weights([w + 0.5 for w in model.get_weights()])
    assert not set(clone.weights) & set(model.weights)
    clone.set_weights(model.get_weights())
    np.testing.assert_allclose(clone.predict(X), model.predict(X), rtol=1e-5)
    steps = keras.Sequential([layers.TimeDistributed(_Power(), input_shape=(2, 3))])
    assert keras.models.clone_model(steps).predict(np.full((1, 2, 3), 3.0)).max() == 9.0
    with pytest.raises(ValueError, match="no function '<lambda>' is known"):
        keras.models.model_from_json(keras.Sequential([layers.Lambda(lambda x: x, input_shape=(6,))]).to_json())


def test_a_graph_does_not_grow_with_epochs_of_data_sets() -> None:
    model = keras.Sequential([layers.Dense(1, input_dim=6, kernel_initializer="zeros")])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((X.astype("f"), Y.astype("f"))).batch(8)
    again = data.repeat()
    fit = lambda: model.fit(again, steps_per_epoch=2, epochs=3, validation_data=again, validation_steps=1, verbose=0)  # noqa: E731
    assert len(fit().history["val_loss"]) == 3
    model.fit(data, epochs=2, validation_data=data, verbose=0)
    count = len(tf.get_default_graph().get_operations())
    fit()
    model.fit(data, epochs=3, validation_data=data, verbose=0)
    assert len(model.predict(data)) == len(X)
    assert len(tf.get_default_graph().get_operations()) == count


def test_callbacks_see_what_was_predicted() -> None:
    seen = []
    see = keras.callbacks.LambdaCallback()
    see.on_predict_batch_end = lambda batch, logs=None: seen.append(logs["outputs"][0])
    model = keras.Sequential([layers.Dense(1, input_dim=6)])
    np.testing.assert_array_equal(model.predict(X, batch_size=8, callbacks=[see]), np.concatenate(seen))


def test_updates_and_losses_of_inputs() -> None:
    given, other = layers.Input((6,)), tf.placeholder(tf.float32, [None, 6])
    dense = layers.Dense(1, kernel_regularizer="l2", activity_regularizer="l1")
    model = keras.Model(given, dense(layers.BatchNormalization()(given)))
    loss = tf.reduce_sum(model(other, training=True))
    assert [len(model.get_updates_for(x)) for x in (other, given, None)] == [2, 2, 0]
    assert [len(model.get_losses_for(x)) for x in (other, given, None)] == [1, 1, 1]
    with tf.control_dependencies(model.get_updates_for(other)):
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    keras.backend.get_session().run(step, {other: X})
    assert np.abs(model.layers[1].get_weights()[2]).max() > 0  # the moving mean


def test_models_are_built_for_a_shape() -> None:
    class Two(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = layers.Dense(3), layers.Dense(1)

        def call(self, inputs: Any) -> Any:
            return self.last(self.first(inputs))

    for model in (keras.Sequential([layers.Dense(3), layers.Dense(1)]), Two()):
        with pytest.raises(ValueError, match=f"{model.name} has not yet been built: call build"):
            model.summary()
        model.build((None, 6))
        assert [w.shape.as_list() for w in model.weights] == [[6, 3], [3], [3, 1], [1]]
        lines: list[str] = []
        model.summary(print_fn=lines.append)
        assert "Total params: 25" in lines
        model.set_weights([np.ones_like(w) for w in model.get_weights()])
        model.compile("sgd", "mse")
        np.testing.assert_allclose(model.predict(X), 3 * X.sum(1, keepdims=True) + 4, rtol=1e-4, atol=1e-4)
        model.fit(X, Y, verbose=0)
        assert len(model.weights) == 4
