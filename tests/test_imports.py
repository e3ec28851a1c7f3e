"""The borders between the three packages, and between the rooms inside them, held by reading every import.

Nothing is imported here: the modules are parsed. Imports inside functions count, and so do `import_module("a.b")`
and `__import__("a.b")` with a literal name.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
HOUSES = {"sparkflow": ROOT, "sparkflow_runtime": ROOT / "runtime", "sparkflow_connectors": ROOT / "connectors"}


class Room(NamedTuple):
    """What modules of one room may import. `a.b` names that module alone, `a.b.*` it and everything inside it.

    may: of our own three packages, beside the room itself.
    lazily: the same, but only inside a function or under TYPE_CHECKING.
    never: refused whoever made it.
    outside: the only packages allowed beside ours and the standard library; None allows any.
    """

    may: tuple[str, ...] = ()
    lazily: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    outside: tuple[str, ...] | None = None


NOBODY = ("tensorflow.*",)  # the oracle of tests, never a part of the product
WIRE = "sparkflow_runtime.wire.*"
RECORDS = "sparkflow_runtime.records.*"
FRAMEWORK = "sparkflow.framework.*"
OPS = "sparkflow.ops.*"
SUGAR = Room(may=("sparkflow.*", WIRE))
SOCKETS = ("socket.*", "socketserver.*", "ssl.*", "select.*", "selectors.*")
THREADS = ("threading.*", "_thread.*", "asyncio.*", "concurrent.*", "multiprocessing.*", "subprocess.*")

# A room `a.b.*` is a folder with all that is in it; `a.*` is the modules that lie directly in the house.
# A new folder needs a row here first: decide what it may know before it knows everything.
ROOMS = {
    "sparkflow.*": Room(may=("sparkflow.*", WIRE, RECORDS), lazily=("sparkflow_connectors.*",)),
    "sparkflow.framework.*": Room(may=(WIRE,)),
    "sparkflow.ops.*": Room(may=(FRAMEWORK, WIRE)),
    "sparkflow.grads.*": Room(may=(OPS, FRAMEWORK, WIRE), never=("numpy.*", "cupy.*")),
    "sparkflow.config.*": SUGAR,
    "sparkflow.autograph.*": Room(may=(OPS, FRAMEWORK, WIRE)),
    "sparkflow.train.*": Room(
        may=(OPS, "sparkflow.grads.*", "sparkflow.session.*", FRAMEWORK, "sparkflow.summary.*", WIRE)
    ),
    "sparkflow.session.*": Room(may=(FRAMEWORK, "sparkflow_runtime.*")),
    "sparkflow.layers.*": SUGAR,
    "sparkflow.losses.*": SUGAR,
    "sparkflow.metrics.*": SUGAR,
    "sparkflow.summary.*": SUGAR,
    "sparkflow.compat.*": SUGAR,
    "sparkflow.contrib.*": SUGAR,
    "sparkflow.data.*": Room(may=("sparkflow.*", WIRE, RECORDS, "sparkflow_runtime.kernels.philox")),
    "sparkflow.distributions.*": SUGAR,
    "sparkflow.estimator.*": SUGAR,
    "sparkflow.examples.*": SUGAR,
    "sparkflow.feature_column.*": SUGAR,
    "sparkflow.keras.*": SUGAR,
    "sparkflow.core.*": SUGAR,
    "sparkflow.python.*": SUGAR,
    "sparkflow.saved_model.*": SUGAR,
    "sparkflow_runtime.*": Room(may=("sparkflow_runtime.*",)),  # server.py and session.py join the rooms
    "sparkflow_runtime.wire.*": Room(
        never=SOCKETS + THREADS,
        outside=("numpy.*", "ml_dtypes.*", "google.protobuf.*", "crc32c.*", "tensorboard.compat.proto.*"),
    ),
    # record files and Example messages, for kernels, connectors and tf.python_io alike
    "sparkflow_runtime.records.*": Room(may=(WIRE, "sparkflow_runtime.kernels.compiled"), never=SOCKETS + THREADS),
    "sparkflow_runtime.resources.*": Room(may=(WIRE, RECORDS)),
    "sparkflow_runtime.kernels.*": Room(may=(WIRE, RECORDS, "sparkflow_runtime.resources.*"), never=SOCKETS),
    "sparkflow_runtime.master.*": Room(
        may=(WIRE, "sparkflow_runtime.kernels.registry", "sparkflow_runtime.kernels.memories")
    ),
    "sparkflow_runtime.worker.*": Room(
        may=(
            WIRE,
            "sparkflow_runtime.kernels.*",
            "sparkflow_runtime.resources.*",
            "sparkflow_runtime.transport",  # the interface, not its sockets
            "sparkflow_runtime.transport.base",
        ),
        never=SOCKETS,
    ),
    "sparkflow_runtime.transport.*": Room(may=(WIRE,)),
    "sparkflow_connectors.*": Room(may=("sparkflow.*", WIRE, RECORDS, "sparkflow_runtime.transport.*")),
}


TYPE_CHECKING = ("TYPE_CHECKING", "typing.TYPE_CHECKING")


class Import(NamedTuple):
    target: str
    line: int
    lazy: bool


def covers(pattern: str, module: str) -> bool:
    """`a.b.*` covers a.b and a.b.c; `a.b` covers a.b alone."""
    if not pattern.endswith(".*"):
        return module == pattern
    return module == pattern[:-2] or module.startswith(pattern[:-1])


def house_of(module: str) -> str:
    return module.partition(".")[0]


def room_of(module: str, *, is_package: bool) -> str | None:
    """The row of ROOMS that `module` belongs to; a room may be a folder (`a.b`) or a single module of that name."""
    parts = module.split(".")
    if len(parts) == 1 or (len(parts) == 2 and not is_package and f"{module}.*" not in ROOMS):
        return f"{parts[0]}.*"
    room = ".".join(parts[:2]) + ".*"
    if parts[0] == "sparkflow_connectors":
        return "sparkflow_connectors.*"
    return room if room in ROOMS else None


def imports_in(source: str, module: str, file: str, *, is_package: bool, modules: frozenset[str]) -> Iterator[Import]:
    """Every import of one module, by absolute name. `from a import b` is a.b where that is a module of ours."""
    calls = "import_module" in source or "__import__" in source  # else expressions, most of a tree, hold no import
    followed = (ast.AST,) if calls else (ast.stmt, ast.excepthandler, ast.match_case)

    def names(node: ast.AST) -> Iterator[str]:
        match node:
            case ast.Import(names=aliases):
                yield from (alias.name for alias in aliases)
            case ast.ImportFrom(module=name, names=aliases, level=level):
                parents = module.split(".")[: None if is_package else -1]
                base = ".".join([*parents[: len(parents) - level + 1], *([name] if name else [])]) if level else name
                assert base is not None, "without dots an import names its module"
                for alias in aliases:
                    inner = f"{base}.{alias.name}"
                    yield inner if inner in modules or house_of(base) not in HOUSES else base
            case ast.Call(
                func=ast.Name(id="__import__" | "import_module") | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name

    def walk(node: ast.AST, lazy: bool) -> Iterator[Import]:
        for name in names(node):
            yield Import(name, node.lineno, lazy)  # type: ignore[attr-defined]
        inside = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for field, value in ast.iter_fields(node):
            for_types = isinstance(node, ast.If) and field == "body" and ast.unparse(node.test) in TYPE_CHECKING
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, followed):
                    yield from walk(child, inside or for_types)

    yield from walk(ast.parse(source, file), False)


def broken_rule(found: Import, room_name: str) -> str | None:
    """The rule of that room which an import breaks, in words."""
    room = ROOMS[room_name]
    if any(covers(pattern, found.target) for pattern in NOBODY):
        return "the product never imports tensorflow"
    if any(covers(pattern, found.target) for pattern in room.never):
        return f"{room_name} never imports {', '.join(room.never)}"
    if house_of(found.target) in HOUSES:
        if any(covers(pattern, found.target) for pattern in (room_name, *room.may)):
            return None
        if any(covers(pattern, found.target) for pattern in room.lazily):
            return None if found.lazy else f"{room_name} imports {found.target} only inside a function"
        return f"of sparkflow's own, {room_name} imports only {', '.join(room.may) or 'itself'}"
    if room.outside is None or house_of(found.target) in sys.stdlib_module_names:
        return None
    if any(covers(pattern, found.target) for pattern in room.outside):
        return None
    return f"of others, {room_name} imports only the standard library, {', '.join(room.outside)}"


def check(source: str, module: str, file: str, *, is_package: bool, modules: frozenset[str]) -> list[str]:
    """Violations in one module, as `file:line imports X (rule)`."""
    room = room_of(module, is_package=is_package)
    if room is None:
        return [f"{file}:1 lies in no room ({module} needs a row in ROOMS of tests/test_imports.py)"]
    found = imports_in(source, module, file, is_package=is_package, modules=modules)
    return [f"{file}:{one.line} imports {one.target} ({rule})" for one in found if (rule := broken_rule(one, room))]


def product() -> dict[str, Path]:
    """Module name -> file, over the three packages."""
    files = {}
    for house, parent in HOUSES.items():
        for file in sorted((parent / house).rglob("*.py")):
            parts = file.relative_to(parent).with_suffix("").parts
            files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return files


def test_every_module_keeps_to_its_room() -> None:
    files = product()
    assert {house_of(module) for module in files} == set(HOUSES)
    violations: list[str] = []
    for module, file in files.items():
        violations += check(
            file.read_text(encoding="utf-8"),
            module,
            str(file.relative_to(ROOT)),
            is_package=file.name == "__init__.py",
            modules=frozenset(files),
        )
    assert not violations, "\n" + "\n".join(violations)


# Modules that exist in the snippets' world: `from sparkflow_runtime.kernels import registry` names a module there.
WORLD = frozenset(
    [
        "sparkflow",
        "sparkflow.framework",
        "sparkflow.framework.graph",
        "sparkflow.ops",
        "sparkflow.ops.math",
        "sparkflow.session",
        "sparkflow.layers",
        "sparkflow_runtime",
        "sparkflow_runtime.wire",
        "sparkflow_runtime.wire.dtypes",
        "sparkflow_runtime.kernels",
        "sparkflow_runtime.kernels.registry",
        "sparkflow_runtime.kernels.math",
        "sparkflow_runtime.transport",
        "sparkflow_runtime.transport.tcp",
        "sparkflow_connectors",
        "sparkflow_connectors.spark",
    ]
)

REFUSED = [  # (module, source, what the report names)
    ("sparkflow_runtime.server", "import sparkflow", "sparkflow"),
    ("sparkflow_runtime.session", "from sparkflow.framework import graph", "sparkflow.framework.graph"),
    ("sparkflow_runtime.worker.executor", "import sparkflow_connectors.spark", "sparkflow_connectors.spark"),
    ("sparkflow.ops.math", "from sparkflow_connectors import spark", "sparkflow_connectors.spark"),
    ("sparkflow.doctor", "import sparkflow_connectors", "sparkflow_connectors"),  # eager; lazily it may
    ("sparkflow.doctor", "import sparkflow_runtime.session", "sparkflow_runtime.session"),
    ("sparkflow.train.saver", "from sparkflow_runtime import kernels", "sparkflow_runtime.kernels"),
    ("sparkflow.layers.core", "def f():\n    import sparkflow_runtime.worker", "sparkflow_runtime.worker"),
    ("sparkflow.framework.graph", "from ..ops import math", "sparkflow.ops.math"),
    ("sparkflow.framework.graph", "from .. import session", "sparkflow.session"),
    ("sparkflow.framework.graph", "import sparkflow", "sparkflow"),
    ("sparkflow.ops.math", "class A:\n    def f(self):\n        import sparkflow.grads.math", "sparkflow.grads.math"),
    ("sparkflow.grads.math", "import numpy as np", "numpy"),
    ("sparkflow.grads.math", "from numpy.linalg import norm", "numpy.linalg.norm"),
    ("sparkflow.train.hooks", "import sparkflow.estimator", "sparkflow.estimator"),
    ("sparkflow.session.session", "from sparkflow.ops.math import matmul", "sparkflow.ops.math"),
    ("sparkflow_runtime.wire.frame", "import socket", "socket"),
    ("sparkflow_runtime.wire.frame", "from threading import Lock", "threading.Lock"),
    ("sparkflow_runtime.wire.frame", "import pyarrow", "pyarrow"),
    (
        "sparkflow_runtime.wire.frame",
        "from sparkflow_runtime.kernels.math import add",
        "sparkflow_runtime.kernels.math",
    ),
    ("sparkflow_runtime.resources.queues", "import sparkflow_runtime.worker", "sparkflow_runtime.worker"),
    ("sparkflow_runtime.kernels.math", "from sparkflow_runtime import master", "sparkflow_runtime"),
    ("sparkflow_runtime.kernels.io", "import socket", "socket"),
    ("sparkflow_runtime.master.fold", "from sparkflow_runtime.kernels import math", "sparkflow_runtime.kernels.math"),
    ("sparkflow_runtime.master.fold", "import sparkflow_runtime.worker", "sparkflow_runtime.worker"),
    ("sparkflow_runtime.worker.send", "from ..transport import tcp", "sparkflow_runtime.transport.tcp"),
    ("sparkflow_runtime.transport.tcp", "from sparkflow_runtime.worker import plan", "sparkflow_runtime.worker"),
    ("sparkflow_connectors.dask", "import sparkflow_runtime.server", "sparkflow_runtime.server"),
    ("sparkflow_connectors.spark.launch", "import sparkflow_runtime", "sparkflow_runtime"),
    ("sparkflow_connectors.spark", "import tensorflow as tf", "tensorflow"),
    ("sparkflow.estimator.export", "def f():\n    from tensorflow.python import keras", "tensorflow.python.keras"),
    (
        "sparkflow.layers.core",
        "import importlib\nimportlib.import_module('sparkflow_runtime.master')",
        "sparkflow_runtime.master",
    ),
    ("sparkflow.layers.core", "__import__('tensorflow')", "tensorflow"),
]

ALLOWED = [
    ("sparkflow.doctor", "def __getattr__(name):\n    import sparkflow_connectors.spark"),
    (
        "sparkflow.doctor",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sparkflow_connectors import spark",
    ),
    (
        "sparkflow.framework.graph",
        "import numpy, threading\nfrom sparkflow_runtime.wire import dtypes\nfrom . import shapes",
    ),
    (
        "sparkflow.ops.math",
        "from sparkflow.framework.graph import Tensor\nfrom sparkflow_runtime.wire.dtypes import f32",
    ),
    ("sparkflow.grads.math", "from sparkflow.ops import math\nfrom sparkflow.grads.registry import gradient"),
    ("sparkflow.session.session", "import sparkflow_runtime.session\nfrom sparkflow_runtime import server"),
    ("sparkflow.estimator.export", "import sparkflow as tf\nimport sparkflow.saved_model"),
    (
        "sparkflow_runtime.wire.dtypes",
        "import struct, ml_dtypes, numpy\nfrom tensorboard.compat.proto import graph_pb2",
    ),
    ("sparkflow_runtime.wire.example", "from google.protobuf import descriptor_pool"),
    ("sparkflow_runtime.master.fold", "from sparkflow_runtime.kernels import registry"),
    ("sparkflow_runtime.worker.executor", "from sparkflow_runtime.transport import connect\nimport threading"),
    ("sparkflow_runtime.transport.tcp", "import socket, threading\nfrom ..wire import dtypes"),
    ("sparkflow_runtime.server", "from sparkflow_runtime import kernels, transport\nimport sparkflow_runtime.worker"),
    ("sparkflow_connectors.spark.launch", "import pyspark, sparkflow\nfrom sparkflow_runtime.transport import tcp"),
    ("sparkflow_connectors.spark.launch", "text = 'import tensorflow'  # import tensorflow"),
]


@pytest.mark.parametrize(("module", "source", "target"), REFUSED)
def test_a_violation_is_found(module: str, source: str, target: str) -> None:
    line = 1 + source.count("\n")
    (report,) = check(source, module, "x.py", is_package=False, modules=WORLD)
    assert report.startswith(f"x.py:{line} imports {target} (")


@pytest.mark.parametrize(("module", "source"), ALLOWED)
def test_what_the_design_allows_passes(module: str, source: str) -> None:
    assert check(source, module, "x.py", is_package=False, modules=WORLD) == []


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert check("from .graph import Graph", "sparkflow.framework", "x.py", is_package=True, modules=WORLD) == []
    (report,) = check("from ..ops import math", "sparkflow.framework", "x.py", is_package=True, modules=WORLD)
    assert "sparkflow.ops.math" in report


def test_a_folder_without_a_row_is_reported() -> None:
    (report,) = check("", "sparkflow_runtime.attic.old", "x.py", is_package=False, modules=WORLD)
    assert "sparkflow_runtime.attic.old" in report


@pytest.mark.parametrize("room", ROOMS)
def test_every_row_names_modules_of_the_right_form(room: str) -> None:
    def names(patterns: Sequence[str]) -> list[str]:
        return [pattern for pattern in patterns if house_of(pattern) not in HOUSES]

    assert room.endswith(".*")
    assert not names((room, *ROOMS[room].may, *ROOMS[room].lazily))
