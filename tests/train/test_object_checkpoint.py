"""Checkpoint and CheckpointManager: variables under the names that objects have for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


class Model:
    """A regression with Adam, and all that is saved of it."""

    def __init__(self, prefix: str = "") -> None:
        self.layer = tf.layers.Dense(1, name=f"{prefix}dense")
        self.optimizer = tf.train.AdamOptimizer(0.1)
        self.step = tf.Variable(0, trainable=False, name=f"{prefix}step")
        loss = tf.reduce_sum(self.layer(tf.ones([2, 3])) ** 2)
        self.train = self.optimizer.minimize(loss, self.step)

    def checkpoint(self) -> Any:
        return tf.train.Checkpoint(layer=self.layer, optimizer=self.optimizer, more=[{"step": self.step}])

    def values(self, session: Any) -> list[Any]:
        slots = [self.optimizer.get_slot(self.layer.kernel, name) for name in ("m", "v")]
        return session.run([self.layer.kernel, self.layer.bias, self.step, *slots, *self.optimizer._non_slot.values()])  # type: ignore[no-any-return]


KEYS = [
    "layer/bias/.ATTRIBUTES/VARIABLE_VALUE", "layer/bias/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
    "layer/bias/.OPTIMIZER_SLOT/optimizer/v/.ATTRIBUTES/VARIABLE_VALUE", "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE",
    "layer/kernel/.OPTIMIZER_SLOT/optimizer/m/.ATTRIBUTES/VARIABLE_VALUE",
    "layer/kernel/.OPTIMIZER_SLOT/optimizer/v/.ATTRIBUTES/VARIABLE_VALUE",
    "more/0/step/.ATTRIBUTES/VARIABLE_VALUE", "optimizer/beta1_power/.ATTRIBUTES/VARIABLE_VALUE",
    "optimizer/beta2_power/.ATTRIBUTES/VARIABLE_VALUE", "save_counter/.ATTRIBUTES/VARIABLE_VALUE",
]  # fmt: skip


def _saved(folder: Path) -> tuple[str, list[Any]]:
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model()
        session.run(tf.global_variables_initializer())
        session.run([model.train])
        session.run([model.train])
        path = model.checkpoint().save(str(folder / "model"))
        return path, model.values(session)


def test_a_model_of_other_names_goes_on(tmp_path: Path) -> None:
    """What counts are the names of the objects' attributes, not those of the graph's variables."""
    path, expected = _saved(tmp_path)
    assert path == str(tmp_path / "model-1") == tf.train.latest_checkpoint(str(tmp_path))
    names = sorted(tf.train.load_checkpoint(path).get_variable_to_shape_map())
    assert names == ["_CHECKPOINTABLE_OBJECT_GRAPH", *KEYS]
    with tf.Graph().as_default(), tf.Session() as session:
        model = Model("other_")
        root = model.checkpoint()
        root.restore(path).assert_consumed().run_restore_ops()
        for found, wanted in zip(model.values(session), expected):
            np.testing.assert_array_equal(found, wanted)
        assert session.run(root.save_counter) == 1 and root.save(str(tmp_path / "model")).endswith("model-2")
        session.run(model.train)


def test_a_part_of_a_checkpoint(tmp_path: Path) -> None:
    path, expected = _saved(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        step, other = tf.Variable(5), tf.Variable(7.0)
        root = tf.train.Checkpoint(more=({"step": step},), other=other)
        status = root.restore(path).expect_partial().assert_nontrivial_match()
        with pytest.raises(AssertionError, match="Unresolved object in checkpoint: layer/bias"):
            status.assert_consumed()
        with pytest.raises(AssertionError, match="not assigned a value from checkpoint: Variable_1"):
            status.assert_existing_objects_matched()
        status.initialize_or_restore(session)
        assert session.run([step, other]) == [expected[2], 7.0]
        with pytest.raises(AssertionError, match="Nothing except the root"):
            tf.train.Checkpoint(nobody=other).restore(path).assert_nontrivial_match()


def test_what_is_set_after_restore_takes_part(tmp_path: Path) -> None:
    path, expected = _saved(tmp_path)
    with tf.Graph().as_default(), tf.Session() as session:
        root = tf.train.Checkpoint()
        status = root.restore(path)
        root.more = [{"step": tf.Variable(0)}]
        status.run_restore_ops(session)
        assert session.run(root.more[0]["step"]) == expected[2]


def test_nothing_to_restore(graph: Any, tmp_path: Path) -> None:
    v = tf.Variable(3.0)
    root = tf.train.Checkpoint(v=v)
    with tf.Session() as session:
        root.restore(None).initialize_or_restore()
        assert session.run(v) == 3
        with pytest.raises(AssertionError, match="nothing is being restored"):
            root.restore(None).run_restore_ops()
    with pytest.raises(tf.errors.NotFoundError, match="there is no checkpoint"):
        root.restore(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="no default session"):
        root.save(str(tmp_path / "x"))


def test_checkpoints_of_a_saver_by_name(graph: Any, tmp_path: Path) -> None:
    v, w = tf.Variable([1.0, 2.0], name="v"), tf.Variable(3, name="w")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "old"))
        session.run([v.assign([0, 0]), w.assign(0)])
        tf.train.Checkpoint(anything=v, at_all=[w]).restore(path).run_restore_ops()
        assert session.run(v).tolist() == [1, 2] and session.run(w) == 3


def test_what_cannot_be_saved(graph: Any, tmp_path: Path) -> None:
    with tf.Session():
        with pytest.raises(ValueError, match="was expecting"):
            tf.train.Checkpoint(x=3).save(str(tmp_path / "x"))
        with pytest.raises(ValueError, match="keys of a dict must be strings"):
            tf.train.Checkpoint(x={3: tf.Variable(1)}).save(str(tmp_path / "x"))


def test_names_with_signs(graph: Any, tmp_path: Path) -> None:
    with tf.Session() as session:
        v = tf.Variable(1)
        session.run(v.initializer)
        root = tf.train.Checkpoint(x={"a.b/c": v})
        path = root.write(str(tmp_path / "x"))
        assert "x/a..b.Sc/.ATTRIBUTES/VARIABLE_VALUE" in tf.train.load_checkpoint(path).get_variable_to_shape_map()


def test_manager(graph: Any, tmp_path: Path) -> None:
    v = tf.Variable(0)
    add = v.assign_add(1)
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), str(tmp_path), max_to_keep=2)
    called = []
    first = tf.train.CheckpointManager(manager.checkpoint, str(tmp_path), 2, init_fn=lambda: called.append(1))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert first.restore_or_initialize() is None and called == [1]
        for _ in range(3):
            session.run(add)
            manager.save()
        names = [Path(path).name for path in manager.checkpoints]
        assert names == ["ckpt-2", "ckpt-3"] and manager.latest_checkpoint == str(tmp_path / "ckpt-3")
        assert sorted(p.name for p in tmp_path.glob("*.index")) == ["ckpt-2.index", "ckpt-3.index"]
        assert Path(str(manager.save(checkpoint_number=9))).name == "ckpt-9"
    again = tf.train.CheckpointManager(tf.train.Checkpoint(v=v), str(tmp_path), max_to_keep=2)
    with tf.Session() as session:
        assert [Path(path).name for path in again.checkpoints] == ["ckpt-3", "ckpt-9"]
        assert again.restore_or_initialize() == str(tmp_path / "ckpt-9") and session.run(v) == 3
        again.save()
        assert [Path(path).name for path in again.checkpoints] == ["ckpt-9", "ckpt-5"]


def test_manager_saves_at_intervals(graph: Any, tmp_path: Path) -> None:
    step = tf.Variable(0)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(step=step), str(tmp_path), None, step_counter=step, checkpoint_interval=2
    )
    with tf.Session() as session:
        session.run(step.initializer)
        saved = []
        for _ in range(5):
            saved.append(manager.save() is not None)
            session.run(step.assign_add(1))
        assert saved == [True, False, True, False, True] and manager.save(check_interval=False) is not None
    with pytest.raises(ValueError, match="max_to_keep"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 0)
    with pytest.raises(ValueError, match="step_counter"):
        tf.train.CheckpointManager(tf.train.Checkpoint(), str(tmp_path), 1, checkpoint_interval=3)


def test_a_saver_restores_objects_by_their_names(graph: tf.Graph, tmp_path: Path) -> None:
    """Slots too, a variable that is in parts now, and of a graph that has more than once restored it the same nodes."""
    model = Model()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(model.train)
        prefix, wanted = model.checkpoint().save(str(tmp_path / "m"), session=session), model.values(session)
    with tf.Graph().as_default() as other, tf.Session() as session:
        again = Model()
        saver = tf.train.Saver()
        for _ in range(2):
            session.run(tf.global_variables_initializer())
            saver.restore(session, prefix)
            count = len(other.get_operations())
            assert [v.tolist() for v in again.values(session)] == [v.tolist() for v in wanted]
        saver.restore(session, prefix)
        assert len(other.get_operations()) == count
        named = saver.save(session, str(tmp_path / "named"))
        assert named is not None and tf.train.list_variables(named)[0][0] == "beta1_power"
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("dense"):
            parts = tf.get_variable("kernel", [3, 1], partitioner=tf.fixed_size_partitioner(3))
        tf.train.Saver().restore(session, prefix)
        assert session.run(tf.convert_to_tensor(parts)).tolist() == wanted[0].tolist()
        extra = tf.get_variable("extra", [])
        with pytest.raises(tf.errors.NotFoundError, match="no variable of theirs was called 'extra'"):
            tf.train.Saver([extra, *parts]).restore(session, prefix)
        with pytest.raises(tf.errors.InvalidArgumentError, match="shape"):
            tf.train.Saver({"step": tf.get_variable("other", [2], tf.int32)}).restore(session, prefix)
