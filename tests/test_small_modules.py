"""tf.raw_ops, tf.dtypes, tf.config, tf.resource_loader, tf.autograph and switch_case."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import sparkflow as tf


def _run(fetches: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(fetches, feeds)


def test_raw_ops_take_all_by_name() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 5.0]])
    out = tf.raw_ops.MatMul(a=x, b=x, transpose_b=True, name="product")
    assert out.op.name == "product" and _run(out).tolist() == [[5, 13], [13, 34]]
    assert _run(tf.raw_ops.TopKV2(input=x, k=1).indices).tolist() == [[1], [1]]
    assert _run(tf.raw_ops.Cast(x=x, DstT=tf.int32)).dtype == np.int32
    assert _run(tf.raw_ops.ConcatV2(values=[x, x], axis=0)).shape == (4, 2)
    assert "MatMul" in dir(tf.raw_ops)
    with pytest.raises(TypeError, match=r"\['b'\] are not given"):
        tf.raw_ops.MatMul(a=x)
    with pytest.raises(AttributeError, match="NoSuchOp"):
        _ = tf.raw_ops.NoSuchOp


def test_own_names_need_no_import() -> None:
    program = "import sparkflow as tf; print(tf.experimental.carried_as.__name__)"
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert found.stdout == "carried_as\n", found.stderr


def test_types_and_devices() -> None:
    assert tf.dtypes.float32 is tf.float32 and tf.dtypes.cast(1.5, tf.dtypes.int32).dtype == tf.dtypes.as_dtype("int32")
    (cpu,) = tf.config.experimental.list_physical_devices("CPU")
    assert cpu.device_type == "CPU" and cpu.name == "/physical_device:CPU:0"
    assert tf.config.list_logical_devices("CPU")[0].name.endswith("CPU:0")


def test_files_beside_a_module() -> None:
    here = os.path.abspath(__file__)
    assert tf.resource_loader.get_path_to_datafile(os.path.basename(here)) == here
    assert tf.resource_loader.get_data_files_path() == os.path.dirname(here)
    assert b"files_beside" in tf.resource_loader.load_resource(os.path.basename(here))


def test_what_has_nothing_to_do() -> None:
    @tf.autograph.experimental.do_not_convert
    def doubled(x: int) -> int:
        return 2 * x

    tf.disable_resource_variables()
    tf.disable_control_flow_v2()
    assert doubled(2) == 4 and tf.get_logger() is logging.getLogger("sparkflow")


@pytest.mark.parametrize("index, want", [(0, 10), (1, 20), (2, 30), (3, 30), (-1, 30)])
def test_switch_case(index: int, want: int) -> None:
    branches = [lambda: tf.constant(10), lambda: tf.constant(20), lambda: tf.constant(30)]
    where = tf.placeholder(tf.int32, [])
    by_number = {2: branches[2], 0: branches[0], 1: branches[1]}
    outs = [tf.switch_case(where, b) for b in (branches, by_number)]
    outs.append(tf.switch_case(where, branches[:2], branches[2]))
    assert _run(outs, {where: index}) == [want] * 3
    with pytest.raises(ValueError, match="one number"):
        tf.switch_case(where, [(1, branches[0]), (1, branches[1])])


def test_a_notebook_completes_what_is_loaded_when_it_is_first_named() -> None:
    """tf.<tab> offered no tf.local, tf.data, tf.contrib ..., and tf.contrib.<tab> nothing but Any."""
    names = set(dir(tf))
    assert {"local", "spark", "dask", "data", "contrib", "gfile", "saved_model", "layers", "Session"} <= names
    assert {"layers", "slim", "training"} <= set(dir(tf.contrib)) and {"backend", "utils"} <= set(dir(tf.keras))
    for name in sorted(names - {"spark", "dask"}):
        assert hasattr(tf, name), name


def test_connectors_without_their_packages_say_how_to_install_them() -> None:
    """As modules that there are not, for whoever tries; and dir() does not lead tools to them."""
    program = """
        import importlib.abc, inspect, sys

        class Absent(importlib.abc.MetaPathFinder):
            def find_spec(self, found, path=None, target=None):
                if found.partition(".")[0] in ("pyspark", "distributed"):
                    raise ModuleNotFoundError(f"No module named {found!r}", name=found)

        sys.meta_path.insert(0, Absent())
        import sparkflow as tf
        for name in ("spark", "dask"):
            try:
                getattr(tf, name)
            except ModuleNotFoundError as error:
                print(error.name, error)
        sys.meta_path.pop(0)
        sys.modules |= {"pyspark": None, "distributed": None}
        print("spark" in dir(tf), "dask" in dir(tf), "local" in dir(tf), len(inspect.getmembers(tf)) > 500)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    *told, listed = done.stdout.splitlines()
    assert len(told) == 2, done.stdout + done.stderr
    for said, name, package in zip(told, ("spark", "dask"), ("pyspark", "distributed")):
        assert said.startswith(f"{package} tf.{name} needs the package '{package}'")
        assert said.endswith(f"with its extra '{name}', as by pip install '/path/to/checkout[{name}]'")
    assert listed == "False False True True", done.stderr
