"""A task unpickles what it is sent before it has imported anything of ours, so these modules may be the first ones."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST = [
    "sparkflow_connectors.job", "sparkflow_connectors.column_types", "sparkflow_connectors.packing",
    "sparkflow_connectors.model", "sparkflow_runtime.records.ready", "sparkflow_runtime.wire.dtypes",
    "sparkflow_connectors.spark_tfrecord", "sparkflow_runtime.kernels.table", "sparkflow_runtime.records.example",
]  # fmt: skip


@pytest.mark.parametrize("module", FIRST)
def test_the_first_import_of_a_process(module: str) -> None:
    done = subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_graph_needs_no_runtime() -> None:
    """The runtime is half of all modules: the first session or server imports it."""
    code = (
        "import sys, sparkflow as tf; x = tf.placeholder(tf.float32, [2]); tf.gradients(tf.square(x), x); "
        "found = {m for m in sys.modules if m.startswith(('sparkflow_runtime', 'crc32c'))}; "
        "print([m for m in found if not m.startswith('sparkflow_runtime.wire')]); "
        "print(tf.Session().run(x, {x: [1, 2]}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "['sparkflow_runtime']\n[1. 2.]\n", done.stderr


def test_what_few_servers_need_is_imported_when_they_do() -> None:
    code = "import sys, sparkflow.session.server as s; s.Server.create_local_server(); "
    code += "print(*{'ssl', 'crc32c', 'email', 'asyncio'} & {*sys.modules}); import os; sys.stdout.flush(); os._exit(0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_a_parameter_server_is_nobodys_master() -> None:
    """Nor does it, for tables that are trained, need kernels of images, strings or files."""
    code = (
        "import sys, os, threading, sparkflow as tf\n"
        "server = tf.train.Server({'ps': ['127.0.0.1:0']}, 'ps', 0)\n"
        "print(*{'sparkflow_runtime.master.master', 'sparkflow_runtime.kernels.table_seldom'} & {*sys.modules})\n"
        "x = tf.get_variable('x', [4, 2]); loss = tf.nn.l2_loss(tf.nn.embedding_lookup(x, [1, 2]))\n"
        "train = tf.train.AdamOptimizer().minimize(loss)\n"
        "with tf.train.MonitoredTrainingSession(server.target) as session:\n"
        "    session.run(train)\n"
        "print(*{'sparkflow_runtime.kernels.table_seldom'} & {*sys.modules})\n"
        "print(tf.Session().run(tf.strings.join(['a', 'b'])))\n"
        "sys.stdout.flush(); os._exit(0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "\n\nb'ab'\n", done.stderr


def test_only_the_import_is_made_old() -> None:
    """Sessions and servers come and go: what is young beside them stays young, so that it is collected in time."""
    code = (
        "import gc, sparkflow as tf; from sparkflow.session.server import Server; tf.Session(); "
        "Server.create_local_server().stop(); gc.collect(); gc.disable(); young = []; tf.Session(); "
        "Server.create_local_server().stop(); "
        "print(any(o is young for generation in (0, 1) for o in gc.get_objects(generation)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_record_files_need_neither_graphs_nor_kernels() -> None:
    """Spark starts a process for each step of planning a read or a write, and each imports this first."""
    code = (
        "import sys, sparkflow_connectors.spark_tfrecord; "
        "print(*{'sparkflow', 'sparkflow_runtime.kernels.registry', 'pandas', 'numba'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "\n", done.stderr
