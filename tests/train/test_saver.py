"""Checkpoints: what comes back, what is refused, and what a crash or a damaged disk leaves."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import sparkflow as tf
from sparkflow.framework.graph import Graph
from sparkflow.train import checkpoint_state
from sparkflow_runtime.kernels import checkpoint_files, checkpoint_restore
from sparkflow_runtime.wire.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.wire.protos import MetaGraphDef

DTYPES = [
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "bool",
    "complex64",
    "complex128",
]


def files(directory: Path) -> list[str]:
    return sorted(p.name for p in directory.iterdir())


def saved(directory: Path, **values: Any) -> str:
    """A checkpoint of variables with these names and values."""
    with Graph().as_default(), tf.Session() as sess:
        for name, value in values.items():
            tf.Variable(value, name=name)
        sess.run(tf.global_variables_initializer())
        return tf.train.Saver().save(sess, str(directory / "model"), write_meta_graph=False)


@pytest.mark.parametrize("sharded", [False, True])
def test_everything_comes_back(graph: Graph, tmp_path: Path, sharded: bool) -> None:
    rng = np.random.default_rng(0)
    made = [tf.Variable((rng.standard_normal((3, 2)) * 3).astype(d), name=d) for d in DTYPES]
    made.append(tf.Variable(tf.cast([1.5, -2.5], tf.bfloat16), name="brain"))
    made.append(tf.Variable(np.array([[b"a", b""], [b"\xff\x00", "ü".encode()]], object), name="text"))
    made += [tf.Variable(np.float32(3), name="scalar"), tf.Variable(np.zeros((0, 4), np.float32), name="empty")]
    made.append(tf.get_variable("parts", [5, 2], partitioner=tf.fixed_size_partitioner(2)))
    saver = tf.train.Saver(sharded=sharded)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        before = sess.run(made)
        prefix = saver.save(sess, str(tmp_path / "m"), global_step=7)
    assert prefix == str(tmp_path / "m-7")
    assert files(tmp_path) == ["checkpoint", "m-7.data-00000-of-00001", "m-7.index", "m-7.meta"]
    with tf.Session() as sess:
        saver.restore(sess, prefix)
        for old, new in zip(before, sess.run(made)):
            assert old.dtype == new.dtype and old.shape == new.shape
            np.testing.assert_array_equal(old, new)
    listed = dict(tf.train.list_variables(str(tmp_path)))
    assert listed["parts"] == [5, 2] and "parts/part_0" not in listed and listed["scalar"] == []
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "parts"), before[-1])
    np.testing.assert_array_equal(tf.train.load_variable(prefix, "text"), before[-4])


def test_the_data_file_is_a_safetensors_file(tmp_path: Path) -> None:
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    prefix = saved(tmp_path, w=value)
    np.testing.assert_array_equal(load_file(prefix + ".data-00000-of-00001")["w"], value)
    entry = json.loads(Path(prefix + ".index").read_text())["tensors"]["w"]
    piece = entry["pieces"][0]
    raw = Path(prefix + ".data-00000-of-00001").read_bytes()
    assert raw[piece["offset"] : piece["offset"] + piece["nbytes"]] == value.tobytes()


def test_the_nodes_are_tensorflows(graph: Graph) -> None:
    with tf.device("/job:ps/task:0"):
        tf.get_variable("a", [3, 2])
    with tf.device("/job:ps/task:1"):
        tf.get_variable("b", [3, 2])
    one, two = tf.train.Saver(), tf.train.Saver(sharded=True, name="sharded")
    assert one.as_saver_def().filename_tensor_name == "save/Const:0"
    assert one.as_saver_def().save_tensor_name == "save/control_dependency:0"
    assert one.as_saver_def().restore_op_name == "save/restore_all"
    ops = {op.name: op for op in graph.get_operations()}
    assert [t.name for t in ops["save/SaveV2"].inputs[3:]] == ["a:0", "b:0"]
    assert ops["save/Assign_1"].device == "/job:ps/task:1"
    shards = [op for op in ops.values() if op.type == "SaveV2" and op.name.startswith("sharded/")]
    assert [op.device for op in shards] == ["/job:ps/task:0/device:CPU:0", "/job:ps/task:1/device:CPU:0"]
    assert two.as_saver_def().sharded and ops["sharded/MergeV2Checkpoints"].inputs[1].name == "sharded/Const:0"


def test_no_assign_before_all_shards_are_read(graph: Graph) -> None:
    for task in range(2):
        with tf.device(f"/job:ps/task:{task}"):
            tf.Variable(1.0)
    tf.train.Saver(sharded=True)
    checked = graph.get_operation_by_name("save/checked")
    for op in graph.get_operations():
        if op.type == "Assign" and op.name.startswith("save/"):
            assert checked in op.control_inputs


def test_the_older_format_is_taken_with_a_warning(graph: Graph, caplog: pytest.LogCaptureFixture) -> None:
    tf.get_variable("v", [2])
    tf.train.Saver(write_version=tf.train.SaverDef.V1)
    assert "write_version V1" in caplog.text
    with pytest.raises(ValueError, match=r"must be SaverDef\.V1 or V2, got 7"):
        tf.train.Saver(write_version=7)


def test_merging_what_tasks_saved(tmp_path: Path) -> None:
    table = np.arange(12, dtype=np.float32).reshape(6, 2)
    parts = [str(tmp_path / "m_temp" / f"part-0000{i}-of-00002") for i in range(2)]
    checkpoint_files.save(parts[0], [("t", "6 2 0,4:0,2", table[:4]), ("a", "", np.int64(1))])
    checkpoint_files.save(parts[1], [("t", "6 2 4,2:0,2", table[4:])])
    checkpoint_files.merge(parts, str(tmp_path / "m"), True)
    assert files(tmp_path) == ["m.data-00000-of-00002", "m.data-00001-of-00002", "m.index"]
    prefix = str(tmp_path / "m")
    whole, part = checkpoint_restore.restore(prefix, ["t", "t"], ["", "6 2 3,2:0,2"], [tf.float32, tf.float32])
    np.testing.assert_array_equal(whole, table)
    np.testing.assert_array_equal(part, table[3:5])  # cut otherwise than it was saved
    with pytest.raises(InvalidArgumentError, match=r"has shape \[6, 2\].*\[5, 2\]"):
        checkpoint_restore.restore(prefix, ["t"], ["5 2 0,2:0,2"], [tf.float32])


def test_partitions_may_change(graph: Graph, tmp_path: Path) -> None:
    prefix = saved(tmp_path, w=np.arange(10, dtype=np.float32).reshape(5, 2))
    w = tf.get_variable("w", [5, 2], partitioner=tf.fixed_size_partitioner(3))
    with tf.Session() as sess:
        tf.train.Saver().restore(sess, prefix)
        np.testing.assert_array_equal(sess.run(w), np.arange(10).reshape(5, 2))


def test_names_of_ones_own_choice_and_reshape(graph: Graph, tmp_path: Path) -> None:
    prefix = saved(tmp_path, w=np.arange(6, dtype=np.float32))
    v = tf.Variable(tf.zeros([2, 3]), name="v")
    with tf.Session() as sess:
        tf.train.Saver({"w": v}, reshape=True).restore(sess, prefix)
        np.testing.assert_array_equal(sess.run(v), [[0, 1, 2], [3, 4, 5]])


# ---------------------------------------------------------------------- which are kept


def test_only_the_newest_are_kept(graph: Graph, tmp_path: Path) -> None:
    step = tf.train.get_or_create_global_step()
    advance = tf.assign_add(step, 1)
    saver = tf.train.Saver(max_to_keep=2, pad_step_number=True)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(4):
            sess.run(advance)
            saver.save(sess, str(tmp_path / "m"), step)
    kept = [str(tmp_path / f"m-0000000{i}") for i in (3, 4)]
    assert saver.last_checkpoints == kept and tf.train.latest_checkpoint(str(tmp_path)) == kept[-1]
    assert tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths == kept
    assert not [f for f in files(tmp_path) if "00001." in f or "00002." in f]
    again = tf.train.Saver(max_to_keep=2)
    again.recover_last_checkpoints([*kept, str(tmp_path / "gone")])
    assert again.last_checkpoints == kept
    with tf.Session() as sess:
        again.restore(sess, kept[-1])
        again.save(sess, str(tmp_path / "m"), 9)
    assert not tf.train.checkpoint_exists(kept[0]) and tf.train.checkpoint_exists(kept[1])


@pytest.mark.parametrize("kind", [int, np.int64, np.int32])
def test_steps_as_a_session_gives_them(graph: Graph, tmp_path: Path, kind: Any) -> None:
    step = tf.train.get_or_create_global_step()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert tf.train.Saver().save(sess, f"{tmp_path}/m", global_step=kind(sess.run(step))) == f"{tmp_path}/m-0"
        manager = tf.train.CheckpointManager(tf.train.Checkpoint(step=step), str(tmp_path), 3)
        assert manager.save(kind(7), session=sess) == f"{tmp_path}/ckpt-7"


@pytest.mark.parametrize("all_of_them", [0, None])
def test_a_later_saver_leaves_what_one_that_keeps_all_has_kept(graph: Any, tmp_path: Any, all_of_them: Any) -> None:
    tf.Variable(1.0)
    keeping, later = tf.train.Saver(max_to_keep=all_of_them), tf.train.Saver(max_to_keep=1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in range(4):
            keeping.save(session, str(tmp_path / "m"), step)
        state = tf.train.get_checkpoint_state(str(tmp_path))
        assert list(state.all_model_checkpoint_paths) == [str(tmp_path / "m-3")] and keeping.last_checkpoints == []
        later.recover_last_checkpoints(state.all_model_checkpoint_paths)
        later.save(session, str(tmp_path / "m"), 4)
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["m-0.index", "m-1.index", "m-2.index", "m-4.index"]


def test_one_every_so_many_hours_stays(graph: Graph, tmp_path: Path) -> None:
    tf.Variable(1.0)
    saver = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=1e-9)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        made = [saver.save(sess, str(tmp_path / "m"), i) for i in range(3)]
    assert all(tf.train.checkpoint_exists(p) for p in made)


def test_the_latest_of_a_saver_that_deletes_it_meanwhile(
    tmp_path: Path, graph: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the reading of the state file and the look at what it names: there is a newer one then."""
    tf.get_variable("v", [2])
    saver, exists = tf.train.Saver(max_to_keep=1), checkpoint_state.checkpoint_exists
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        made = [saver.save(sess, str(tmp_path / "m"), 1)]

        def saved_meanwhile(prefix: str) -> bool:
            if len(made) == 1:
                made.append(saver.save(sess, str(tmp_path / "m"), 2))
            return exists(prefix)

        monkeypatch.setattr(checkpoint_state, "checkpoint_exists", saved_meanwhile)
        assert tf.train.latest_checkpoint(str(tmp_path)) == made[1] and not exists(made[0])


def test_state_file(tmp_path: Path) -> None:
    odd = 'a "b" \\ ü'
    tf.train.update_checkpoint_state(
        str(tmp_path), str(tmp_path / odd), [str(tmp_path / "x")], save_relative_paths=False
    )
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert state.model_checkpoint_path == str(tmp_path / odd)
    assert state.all_model_checkpoint_paths == [str(tmp_path / "x"), str(tmp_path / odd)]
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "m-3"\nall_model_checkpoint_paths: "m-3"\n')
    assert tf.train.get_checkpoint_state(str(tmp_path)).model_checkpoint_path == str(tmp_path / "m-3")
    assert tf.train.latest_checkpoint(str(tmp_path)) is None  # it is gone
    assert tf.train.get_checkpoint_state(str(tmp_path / "none")) is None
    (tmp_path / "checkpoint").write_bytes(b"\xff garbage")
    assert tf.train.get_checkpoint_state(str(tmp_path)) is None


def test_relative_paths(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tf.Variable(1.0)
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        tf.train.Saver(save_relative_paths=True).save(sess, str(tmp_path / "m"))
        assert 'model_checkpoint_path: "m"' in (tmp_path / "checkpoint").read_text()
        monkeypatch.chdir(tmp_path)
        assert tf.train.Saver().save(sess, "here") == "here"
        assert tf.train.latest_checkpoint(".") == "./here"
        assert tf.train.Saver().save(sess, "new/dir/m") == "new/dir/m"
        assert tf.train.latest_checkpoint("new/dir") == "new/dir/m"


def test_meta_graph(graph: Graph, tmp_path: Path) -> None:
    tf.Variable(1.0, name="w")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        prefix = saver.save(sess, str(tmp_path / "m"))
    meta = MetaGraphDef.FromString(Path(prefix + ".meta").read_bytes())
    assert "save/SaveV2" in [n.name for n in meta.graph_def.node]
    assert meta.saver_def.restore_op_name == "save/restore_all"
    assert set(meta.collection_def) == {"trainable_variables", "variables"}


# ---------------------------------------------------------------------- what does not fit


def test_another_models_checkpoint(graph: Graph, tmp_path: Path) -> None:
    prefix = saved(tmp_path, weights=np.ones(2, np.float32), bias=np.ones(2, np.float32))
    a, w = tf.Variable(5.0, name="bias_"), tf.Variable(5.0, name="weight")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(NotFoundError) as error:
            saver.restore(sess, prefix)
        assert sess.run([a, w]) == [5, 5]
    for part in (
        "Key bias_ not found",
        "model.index",
        "Similar names in it: bias",
        "and 1 more of the 2",
        "It holds bias, weights",
    ):
        assert part in str(error.value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (np.zeros(3, np.float32), "w has shape (3,) in the graph and (2,) in the checkpoint"),
        (np.zeros(2, np.int32), "w is int32 in the graph and float32 in the checkpoint"),
    ],
)
def test_mismatches(graph: Graph, tmp_path: Path, value: np.ndarray, problem: str) -> None:
    prefix = saved(tmp_path, a=np.ones(2, np.float32), w=np.ones(2, np.float32))
    a = tf.Variable(np.zeros(2, np.float32), name="a")
    tf.Variable(value, name="w")
    saver = tf.train.Saver()
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        with pytest.raises(InvalidArgumentError) as error:
            saver.restore(sess, prefix)
        np.testing.assert_array_equal(sess.run(a), 0)
    assert problem in str(error.value)


def test_the_runtime_checks_too(graph: Graph, tmp_path: Path) -> None:
    """RestoreV2 alone, as in a graph that came without its Saver."""
    from sparkflow.ops import io

    prefix = saved(tmp_path, w=np.ones(2, np.float32))
    with tf.Session() as sess:
        with pytest.raises(NotFoundError, match="Key v not found in checkpoint"):
            sess.run(io.restore_v2(prefix, ["w", "v"], ["", ""], [tf.float32, tf.float32]))
        with pytest.raises(InvalidArgumentError, match=r"is float32 in checkpoint .* and int32 was asked for"):
            sess.run(io.restore_v2(prefix, ["w"], [""], [tf.int32]))
        with pytest.raises(NotFoundError, match=r"Its directory has .*model"):
            sess.run(io.restore_v2(str(tmp_path / "other"), ["w"], [""], [tf.float32]))


def test_refusals(graph: Graph, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No variables to save"):
        tf.train.Saver()
    with tf.Session() as sess:
        assert tf.train.Saver(allow_empty=True).save(sess, str(tmp_path / "m")) is None
    w = tf.Variable(1.0, name="w")
    with pytest.raises(ValueError, match="same name: x"):
        tf.train.Saver({"x": [w, tf.Variable(2.0)]})
    with pytest.raises(TypeError, match="takes variables"):
        tf.train.Saver([tf.constant(1.0)])
    saver = tf.train.Saver()
    with tf.Session() as sess:
        with pytest.raises(ValueError, match="not a valid checkpoint"):
            saver.restore(sess, str(tmp_path / "none"))
        with pytest.raises(ValueError, match="save_path when it is None"):
            saver.restore(sess, None)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="collides"):
            saver.save(sess, str(tmp_path / "checkpoint"))
        with pytest.raises(ValueError, match="path components"):
            saver.save(sess, str(tmp_path / "m"), latest_filename="a/b")


def test_a_variable_in_a_collection_of_the_users_comes_back_as_a_tensor(graph: Any) -> None:
    """As scripts do that train what another graph has exported."""
    rate = tf.get_variable("rate", [], initializer=tf.ones_initializer(), trainable=False)
    tf.add_to_collection("lr", rate)
    tf.add_to_collection("mixed", rate)
    tf.add_to_collection("mixed", tf.assign_add(rate, 1.0))
    meta = tf.train.export_meta_graph()
    assert list(meta.collection_def["lr"].node_list.value) == ["rate:0"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta)
        session.run(tf.global_variables_initializer())
        assert session.run(tf.get_collection_ref("lr")[0]) == 1
        assert session.run(tf.get_collection("mixed")[1]) == 2


def test_the_later_of_two_saves_is_the_latest(graph: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Supervisor's thread may still be at an early step's checkpoint when training ends with one of its own."""
    step = tf.train.get_or_create_global_step()
    saver, path = tf.train.Saver(), str(tmp_path / "model.ckpt")
    begun, go_on, record = threading.Event(), threading.Event(), saver._record

    def slowly(prefix: str, latest: str | None) -> None:
        if prefix.endswith("-0"):
            begun.set()
            go_on.wait(10)
        record(prefix, latest)

    monkeypatch.setattr(saver, "_record", slowly)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        threads = [threading.Thread(target=saver.save, args=(session, path, n)) for n in (step, 30)]
        threads[0].start()
        assert begun.wait(10)
        threads[1].start()
        threads[1].join(0.2)
        go_on.set()
        for thread in threads:
            thread.join(10)
    assert tf.train.latest_checkpoint(str(tmp_path)) == f"{path}-30"
    assert sorted(p.name for p in tmp_path.glob("*.index")) == ["model.ckpt-0.index", "model.ckpt-30.index"]


def test_a_variable_has_one_name(graph: Any) -> None:
    v = tf.Variable(1.0, name="v")
    with pytest.raises(ValueError, match="two names"):
        tf.train.Saver({"a": v, "b": v})


def test_as_a_message(graph: Graph, tmp_path: Path) -> None:
    """A Saver made of another's SaverDef, names without the scope it stands in."""
    v = tf.Variable(3.0)
    saver = tf.train.Saver(name="keep")
    assert saver.saver_def == saver.to_proto() and saver.to_proto("other") is None
    inside = saver.to_proto("keep")
    assert inside.filename_tensor_name == saver.saver_def.filename_tensor_name.removeprefix("keep/")
    again = tf.train.Saver.from_proto(inside, import_scope="keep")
    with tf.Session() as sess:
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "m"))
        sess.run(v.assign(0.0))
        again.restore(sess, path)
        assert sess.run(v) == 3


def test_what_a_state_file_should_say() -> None:
    made = tf.train.generate_checkpoint_state_proto
    found = made("q", "q/m-1", ["a", "q/m-1"], [1.0, 2.0], 0.5)
    assert (found.model_checkpoint_path, found.all_model_checkpoint_paths) == ("m-1", ["../a", "m-1"])
    assert (found.all_model_checkpoint_timestamps, found.last_preserved_timestamp) == ([1, 2], 0.5)
    assert made("/q", "/q/m-1").all_model_checkpoint_paths == ["/q/m-1"]
    with pytest.raises(ValueError, match="must match checkpoint paths"):
        made("q", "q/m-1", ["a"], [1.0])
