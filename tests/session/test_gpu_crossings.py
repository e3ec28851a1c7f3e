"""How often values cross between a GPU's memory and its host's: not once a table."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.crossings import settle_on_hosts
from sparkflow_runtime.wire.protos import GraphDef
from tests.stand_in_cupy import gpus

CPU, GPU = (f"/job:worker/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
WHOLE = tf.RunOptions(output_partition_graphs=True)


def trained(cluster: Any, device: str, tables: int) -> tuple[list[Any], Counter[str], Counter[str]]:
    """(what was learned, how often each op is in the worker's part, and in those of the servers)."""
    servers = cluster(ps=2, worker=1)
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        with tf.device(tf.train.replica_device_setter(2, worker_device=f"/job:worker/task:0{device}")):
            ids, dense = tf.placeholder(tf.int64, [None, tables]), tf.placeholder(tf.float32, [None, 5])
            held = [tf.get_variable(f"t{i}", [50, 4]) for i in range(tables)]
            rows = [tf.nn.embedding_lookup(t, (ids[:, i] + i) % 50) for i, t in enumerate(held)]
            h = tf.layers.dense(tf.concat([dense, *rows], 1), 8, tf.nn.relu)
            loss = tf.reduce_mean(tf.square(tf.layers.dense(h, 1) - 1))
            train = tf.train.AdagradOptimizer(0.1).minimize(loss, tf.train.get_or_create_global_step())
        config = tf.ConfigProto(allow_soft_placement=True)
        with tf.Session(servers["worker0"].target, config=config) as session:
            session.run(tf.global_variables_initializer())
            rng, metadata = np.random.RandomState(0), tf.RunMetadata()
            feeds = {ids: rng.randint(0, 50, (16, tables)), dense: rng.randn(16, 5)}
            losses = [session.run([train, loss], feeds, WHOLE, metadata)[1] for _ in range(4)]
            learned = session.run(tf.trainable_variables())
    ops: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
    for part in metadata.partition_graphs:
        ops["ps" in part.node[0].device].update(n.op for n in part.node)
    return [*losses, *learned], *ops


def test_many_tables_on_parameter_servers(cluster: Any) -> None:
    """Every server has a GPU here, which nobody has asked for."""
    on_cpu, _, _ = trained(cluster, "", 12)
    with gpus(1):
        on_gpu, worker, servers = trained(cluster, "/gpu:0", 12)
        _, more, _ = trained(cluster, "/gpu:0", 24)
    for a, b in zip(on_gpu, on_cpu, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-6)
    assert servers["_ToDevice"] == 0
    assert servers["_GatherDistinct"] == servers["_ApplyDistinct"] == 2
    assert worker["_SpreadConcat"] == 1
    assert 0 < worker["_ToDevice"] == more["_ToDevice"] < 12
    assert 0 < worker["_ToHost"] == more["_ToHost"] < 12


@pytest.fixture
def settled(node: Any, graph_def: Any) -> Any:
    def settle(*nodes: tuple[str, ...], fed: tuple[str, ...] = ()) -> dict[str, bool]:
        """Which of (name, op, input, ...) are on the host then; names in capitals begin there."""
        made = [node(name, op, *inputs, device=CPU if name.isupper() else GPU) for name, op, *inputs in nodes]
        placed = GraphDef()
        placed.CopyFrom(graph_def(*made))
        settle_on_hosts(placed, fed)
        return {n.name: n.device == CPU for n in placed.node}

    return settle


def test_a_concatenation_of_what_hosts_have(settled: Any) -> None:
    given = (("A", "RandomUniform"), ("B", "RandomUniform"), ("AXIS", "Const"), ("g", "Exp", "A"))
    found = settled(*given, ("both", "ConcatV2", "A", "B", "AXIS"), ("use", "Exp", "both"))
    assert found["both"]
    assert not found["use"]
    assert not settled(*given, ("both", "ConcatV2", "A", "g", "AXIS"), ("use", "Exp", "both"))["both"]
    assert not settled(*given, ("both", "ConcatV2", "AXIS", "AXIS", "AXIS"), ("use", "Exp", "both"))["both"], (
        "constants"
    )


def test_parts_of_what_a_gpu_has(settled: Any) -> None:
    given = (("AT", "Const"), ("A", "RandomUniform"), ("g", "Exp", "A"))
    two = (("s", "Slice", "g", "AT", "AT"), ("t", "Slice", "g", "AT", "AT"))
    found = settled(*given, *two, ("S", "Save", "s"), ("T", "Save", "t"))
    assert found["s"]
    assert found["t"]
    assert not settled(*given, *two, ("S", "Save", "s"), ("u", "Exp", "t"))["s"], "one part alone crosses as it is"


def test_what_leads_from_host_to_host(settled: Any) -> None:
    chain = (("i", "StridedSlice", "ids", "AT", "AT", "AT"), ("j", "FloorMod", "i", "AT"), ("r", "Reshape", "j", "AT"))
    found = settled(("AT", "Const"), *chain, ("LOOK", "GatherV2", "AT", "r", "AT"), fed=("ids:0",))
    assert [found[name] for name in "ijr"] == [True] * 3
    found = settled(("AT", "Const"), *chain, ("look", "GatherV2", "AT", "r", "AT"), fed=("ids:0",))
    assert [found[name] for name in "ijr"] == [False] * 3
