"""Programs: a graph and several steps of a session, written once for both libraries and run in every direction."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from sparkflow.framework.shapes import as_dims
from tests.oracle.compare import FUNCTION_SUM, Tolerance
from tests.oracle.engines import OURS, THEIRS, Engine, Outcome, failed
from tests.oracle.oneop import Finding, mismatch


@dataclass(frozen=True)
class Program:
    """build(tf) -> steps; a step is a list of what it fetches, or that and its feeds: {placeholder: array}.

    ops: the op types it is there for. one_way: why a graph of TensorFlow's cannot be run by sparkflow, if so. not_back:
    why TensorFlow gives something else for sparkflow's graph.
    """

    name: str
    build: Callable[[Any], list[Any]]
    ops: tuple[str, ...] = ()
    tolerance: Tolerance = FUNCTION_SUM
    known: str = ""
    one_way: str = ""
    not_back: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)


PROGRAMS: list[Program] = []


def program(*ops: str, **options: Any) -> Callable[[Callable[[Any], list[Any]]], Callable[[Any], list[Any]]]:
    def register(build: Callable[[Any], list[Any]]) -> Callable[[Any], list[Any]]:
        PROGRAMS.append(Program(build.__name__, build, ops, **options))
        return build

    return register


Steps = list[tuple[list[str], dict[str, Any]]]  # names to fetch, feeds by name


def _named(engine: Engine, steps: list[Any]) -> Steps:
    named: Steps = []
    for step in steps:
        fetches, feeds = step if isinstance(step, tuple) else (step, {})
        names: list[str] = []
        for fetch in fetches:
            parts = [fetch.values, fetch.indices] if hasattr(fetch, "indices") else [fetch]
            names += [part.name for part in parts]
        named.append((names, {tensor.name: value for tensor, value in feeds.items()}))
    return named


def _build(engine: Engine, program: Program) -> tuple[Any, Steps] | Outcome:
    graph = engine.graph()
    with graph.as_default():
        try:
            return graph, _named(engine, program.build(engine.tf))
        except Exception as error:  # any class: it is what is compared
            return failed(error)


def _run(engine: Engine, graph: Any, steps: Steps, config: Any) -> list[Outcome]:
    with engine.session(graph, config) as session:
        return [_step(engine, session, fetches, feeds) for fetches, feeds in steps]


def _step(engine: Engine, session: Any, fetches: list[str], feeds: dict[str, Any]) -> Outcome:
    try:
        values = session.run(fetches, feeds)
    except Exception as error:  # any class: it is what is compared
        return failed(error)
    kept = [value for value in values if value is not None]  # operations give None
    return engine.outcome(kept)


def _run_elsewhere(engine: Engine, serialized: bytes, steps: Steps, config: Any) -> list[Outcome]:
    graph = engine.graph()
    with graph.as_default():
        try:
            engine.import_graph(serialized, "")
        except Exception as error:  # any class: it is what is compared
            return [failed(error)] * len(steps)
    return _run(engine, graph, steps, config)


def _less_known(ours: tuple[Any, Steps], theirs: tuple[Any, Steps]) -> str | None:
    """The first fetch of whose shape TensorFlow knows more, before anything runs."""
    for (names, _), (their_names, _) in zip(ours[1], theirs[1], strict=True):
        for name, their_name in zip(names, their_names, strict=True):
            if ":" in name:
                said = as_dims(ours[0].get_tensor_by_name(name).shape)
                shape = theirs[0].get_tensor_by_name(their_name).shape
                wanted = None if shape.rank is None else tuple(shape.as_list())
                if wanted is not None and (
                    said is None or any(d is None and w is not None for d, w in zip(said, wanted))
                ):
                    return f"{name} has static shape {said}, in TensorFlow {wanted}"
    return None


def findings(program: Program, config: Any) -> Iterator[Finding]:
    ours, theirs = _build(OURS, program), _build(THEIRS, program)
    if isinstance(ours, Outcome) or isinstance(theirs, Outcome):
        a = ours if isinstance(ours, Outcome) else Outcome([])
        b = theirs if isinstance(theirs, Outcome) else Outcome([])
        yield Finding("building", *mismatch(a, b, program.tolerance))
        return
    yield Finding("static shapes", _less_known(ours, theirs), 0.0)
    reference = _run(THEIRS, *theirs, None)
    found = {
        "ours": _run(OURS, *ours, config),
    }
    if config is None and not program.not_back:
        found["our graph in TensorFlow"] = _run_elsewhere(THEIRS, OURS.export(ours[0]), ours[1], None)
    if not program.one_way:
        found["TensorFlow's graph in ours"] = _run_elsewhere(OURS, THEIRS.export(theirs[0]), theirs[1], config)
    for where, outcomes in found.items():
        for i, (outcome, wanted) in enumerate(zip(outcomes, reference, strict=True)):
            yield Finding(f"{where}, step {i}", *mismatch(outcome, wanted, program.tolerance))
