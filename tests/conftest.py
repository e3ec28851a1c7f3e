"""Shared by all tests: a fresh default graph for each, and helpers that build GraphDefs by hand."""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from itertools import count
from typing import Any

import numpy as np
import pytest

from sparkflow.framework.graph import Graph, reset_default_graph
from sparkflow.session.server import Server
from sparkflow_runtime.kernels import memories, philox
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.protos import GraphDef, NodeDef
from tests.stand_in_cupy import gpus

# Of tests/cluster: these shorten `make test` in the process that does not wait for Spark.
WITHOUT_SPARK = tuple(
    f"/test_{name}.py" for name in ("dask", "initial", "loops", "own_end", "recovery", "train_and_evaluate", "trainer")
)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """A file's tests stay in one process, and those of Spark in one, for they share its session."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "Spark" if "/cluster/" in file and not file.endswith(WITHOUT_SPARK) else file

    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing that collecting tests makes is garbage, and to look for some took a third to a half of its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Of 15,000 tests a million objects stay, and each full collection would look at them: sessions ask for some."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def own_default_graph() -> None:
    """No test finds what another left in the default graph: which one came before depends on the machine's speed."""
    reset_default_graph()


@pytest.fixture
def graph() -> Iterator[Graph]:
    with Graph().as_default() as g:
        yield g


def make_node(name: str, op: str, *inputs: str, device: str = "", **attrs: Any) -> NodeDef:
    node = NodeDef(name=name, op=op, device=device)
    node.input.extend(inputs)
    for key, value in attrs.items():
        node.attr[key].CopyFrom(encode(value))
    return node


def make_graph(*nodes: NodeDef) -> GraphDef:
    return GraphDef(node=nodes)


@pytest.fixture(name="node")
def node_fixture() -> Any:
    return make_node


@pytest.fixture(name="graph_def")
def graph_def_fixture() -> Any:
    return make_graph


@pytest.fixture(scope="module", autouse=True)
def generators(request: pytest.FixtureRequest) -> list[tuple[np.random.Generator, Any]]:
    """Of a file of tests, as it made them."""
    held = vars(request.module).values()
    return [(one, one.bit_generator.state) for one in held if isinstance(one, np.random.Generator)]


@pytest.fixture(autouse=True)
def same_values_in_every_run(generators: list[tuple[np.random.Generator, Any]]) -> Iterator[None]:
    """What is drawn without a seed comes from one sequence, so that no test passes, or fails, by luck; what a file's
    generator gives is the same whichever tests ran before."""
    for one, began in generators:
        one.bit_generator.state = began
    keys = count(1)
    # Not the fixture: what a test patches must be undone before the fixtures of its file end, not after.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(philox, "_unseeded", lambda: (next(keys), 1 << 62))
        yield


@pytest.fixture(name="cluster")
def cluster_fixture() -> Iterator[Callable[..., dict[str, Server]]]:
    """cluster(ps=2, worker=1): servers of this process that make a cluster, by name: "ps0"."""
    made: list[Server] = []

    def make(**counts: int) -> dict[str, Server]:
        servers = {
            f"{job}{i}": Server.bound(job, i, "127.0.0.1", b"secret") for job, n in counts.items() for i in range(n)
        }
        addresses = {job: [servers[f"{job}{i}"].address for i in range(n)] for job, n in counts.items()}
        for server in servers.values():
            server.join_cluster(addresses)
        made.extend(servers.values())
        return servers

    yield make
    for server in made:
        server.stop()


@pytest.fixture(name="gpu", params=["stand-in", "gpu"])
def gpu_fixture(request: pytest.FixtureRequest) -> Iterator[None]:
    """A machine with two GPUs of a stand-in for cupy, and the one that this is, where that has a GPU."""
    if request.param == "gpu" and not memories.count():
        pytest.skip("cupy reaches no GPU")
    with gpus(2) if request.param == "stand-in" else nullcontext():
        yield
