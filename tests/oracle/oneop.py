"""One op on given inputs, built and run by both libraries in every direction: the outcomes, and what differs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from sparkflow.framework.shapes import as_dims
from tests.oracle.cases.table import Case
from tests.oracle.compare import EXACT, Tolerance, difference, is_float
from tests.oracle.engines import OURS, THEIRS, Engine, Outcome, failed

_GRADIENT_ULPS = 64  # formulas differ, and their terms may cancel
CONST, KNOWN, OPEN = "const", "known shapes", "open shapes"  # how the inputs enter the graph


class Built(NamedTuple):
    """A graph with one node of the op: the graph, its inputs and outputs; or why it could not be built."""

    graph: Any
    inputs: list[Any]
    outputs: list[Any]
    error: Outcome | None


def build(engine: Engine, case: Case, how: str) -> Built:
    graph, flat = engine.graph(), []

    def enter(array: np.ndarray) -> Any:
        name = f"in{len(flat)}"
        if how == CONST:
            flat.append(engine.constant(array, name))
        else:
            flat.append(engine.placeholder(array, name, array.shape if how == KNOWN else None))
        return flat[-1]

    with graph.as_default():
        try:
            inputs = [[enter(a) for a in i] if isinstance(i, list) else enter(i) for i in case.inputs]
            made = engine.apply(case.op, inputs, case.attrs, "op")
            return Built(graph, flat, [made[i] for i in case.outputs] if case.outputs else made, None)
        except Exception as error:  # any class: it is what is compared
            return Built(graph, flat, [], failed(error))


def feeds(case: Case, how: str) -> dict[str, np.ndarray]:
    return {} if how == CONST else {f"in{i}:0": array for i, array in enumerate(case.arrays())}


def run(engine: Engine, graph: Any, fetches: list[str], values: dict[str, Any], config: Any = None) -> Outcome:
    with engine.session(graph, config) as session:
        return engine.run(session, fetches, values)


def run_elsewhere(
    engine: Engine, serialized: bytes, fetches: list[str], values: dict[str, Any], config: Any
) -> Outcome:
    """A GraphDef of the other library."""
    graph = engine.graph()
    with graph.as_default():
        try:
            engine.import_graph(serialized, "")
        except Exception as error:  # any class: it is what is compared
            return failed(error)
    return run(engine, graph, fetches, values, config)


def mismatch(ours: Outcome, theirs: Outcome, tolerance: Tolerance) -> tuple[str | None, float]:
    """(what differs, the worst error in units in the last place)."""
    if theirs.error or ours.error:
        if ours.error == theirs.error:
            return None, 0.0
        return f"{_said(ours)} where TensorFlow: {_said(theirs)}", 0.0
    worst = 0.0
    for i, (a, b) in enumerate(zip(ours.values or [], theirs.values or [], strict=True)):
        what, ulps = difference(a, b, tolerance)
        worst = max(worst, ulps)
        if what:
            return f"output {i}: {what}", worst
    return None, worst


def _said(outcome: Outcome) -> str:
    if outcome.error:
        return f"{outcome.error} ({outcome.message.splitlines()[0][:160] if outcome.message else ''})"
    return "values " + ", ".join(f"{v.dtype}{list(v.shape)}" for v in outcome.values or [])


class Finding(NamedTuple):
    where: str
    what: str | None
    ulps: float


_REFERENCES: dict[str, Outcome] = {}  # what TensorFlow gave for a case, for the configurations after the first


def _reference(case: Case) -> Outcome:
    if case.id not in _REFERENCES:
        theirs = build(THEIRS, case, OPEN)
        names = [t.name for t in theirs.outputs]
        _REFERENCES[case.id] = theirs.error or run(THEIRS, theirs.graph, names, feeds(case, OPEN))
    return _REFERENCES[case.id]


def forward(case: Case, config: Any) -> Iterator[Finding]:
    """Nothing where TensorFlow has no kernel for the case; else a finding for each way of running it.

    config: of our session. With another than the default one (None) only our own graphs are run again, by us.
    """
    reference = _reference(case)
    if reference.unsupported:
        return
    for how in (OPEN,) if case.brief else (CONST, KNOWN, OPEN):
        if config is None or how != KNOWN:
            yield from _ours(case, how, reference, config)
    theirs = build(THEIRS, case, OPEN) if config is None else None
    if theirs is not None and not theirs.error:
        fetches = [t.name for t in theirs.outputs]
        found = run_elsewhere(OURS, THEIRS.export(theirs.graph), fetches, feeds(case, OPEN), config)
        yield Finding("TensorFlow's graph in ours", *mismatch(found, reference, case.tolerance))


def _ours(case: Case, how: str, reference: Outcome, config: Any) -> Iterator[Finding]:
    mine = build(OURS, case, how)
    if mine.error:
        yield Finding(f"building, {how}", *mismatch(mine.error, reference, case.tolerance))
        return
    fetches = [t.name for t in mine.outputs]
    found = run(OURS, mine.graph, fetches, feeds(case, how), config)
    yield Finding(f"run, {how}", *mismatch(found, reference, case.tolerance))
    if config is not None:
        return
    there = run_elsewhere(THEIRS, OURS.export(mine.graph), fetches, feeds(case, how), None)
    if not there.unsupported:  # its shape functions know fewer types than its kernels
        yield Finding(f"our graph in TensorFlow, {how}", *mismatch(there, reference, EXACT))
    if found.values is not None:
        yield Finding(f"static shapes, {how}", _shapes(case, mine, how, found), 0.0)


def _shapes(case: Case, mine: Built, how: str, found: Outcome) -> str | None:
    """What the graph says of its outputs holds, and it says all that TensorFlow says."""
    theirs = build(THEIRS, case, how)
    if theirs.error:
        return None
    for tensor, other, value in zip(mine.outputs, theirs.outputs, found.values or []):
        said = as_dims(tensor.shape)
        if said is not None and (len(said) != value.ndim or any(d not in (None, n) for d, n in zip(said, value.shape))):
            return f"{tensor.name} has static shape {said} and at run time {value.shape}"
        wanted = as_dims(other.shape.as_list()) if other.shape.rank is not None else None
        if wanted is not None and (said is None or any(m is None and t is not None for m, t in zip(said, wanted))):
            return f"{tensor.name} has static shape {said}, in TensorFlow {wanted}"
    return None


# ---------------------------------------------------------------------- gradients


def _derive(engine: Engine, case: Case, built: Built, shapes: list[Any]) -> list[Any]:
    """The gradients of the float outputs by the float inputs, and where asked theirs: names, or None for none."""
    tf = engine.tf
    float_outputs = [(t, s) for t, s in zip(built.outputs, shapes) if _differentiable(t)]
    xs = [t for t in built.inputs if _differentiable(t)]
    with built.graph.as_default():
        first = tf.gradients(
            [t for t, _ in float_outputs], xs, [_weights(engine, t, s, i) for i, (t, s) in enumerate(float_outputs)]
        )
        first = [None if g is None else tf.convert_to_tensor(g) for g in first]
        if not case.second:
            return first
        own = [
            (g, a.shape) for g, a in zip(first, (a for a in case.arrays() if _is_differentiable(a))) if g is not None
        ]
        again = tf.gradients([g for g, _ in own], xs, [_weights(engine, g, s, 7 + i) for i, (g, s) in enumerate(own)])
        return first + [None if g is None else tf.convert_to_tensor(g) for g in again]


def _differentiable(tensor: Any) -> bool:
    return bool(tensor.dtype.is_floating or tensor.dtype.is_complex)


def _is_differentiable(array: np.ndarray) -> bool:
    return is_float(array.dtype) or array.dtype.kind == "c"


def _weights(engine: Engine, tensor: Any, shape: tuple[int, ...], seed: int) -> Any:
    rng = np.random.default_rng(100 + seed)
    values = rng.normal(size=shape)
    if tensor.dtype.is_complex:
        values = values + 1j * rng.normal(size=shape)
    return engine.constant(np.asarray(values).astype(tensor.dtype.as_numpy_dtype), f"weights{seed}")


def backward(case: Case, config: Any) -> Iterator[Finding]:
    plain = _reference(case)
    if plain.values is None:
        return
    shapes = [v.shape for v in plain.values]
    for how in (KNOWN, OPEN) if config is None else (OPEN,):
        yield from _gradients_of(case, how, shapes, config)


def _gradients_of(case: Case, how: str, shapes: list[Any], config: Any) -> Iterator[Finding]:
    made: dict[str, tuple[Any, Outcome | list[Any]]] = {}
    for engine in (OURS, THEIRS):
        built = build(engine, case, how)
        try:
            made[engine.name] = built.graph, _derive(engine, case, built, shapes)
        except Exception as error:  # any class: it is what is compared
            made[engine.name] = built.graph, failed(error)
    (graph, ours), (their_graph, theirs) = made["sparkflow"], made["tensorflow"]
    where = f"gradients, {how}"
    if isinstance(ours, Outcome) or isinstance(theirs, Outcome):
        same = isinstance(ours, Outcome) and isinstance(theirs, Outcome) and ours.error == theirs.error
        yield Finding(where, None if same else f"{_say(ours)} where TensorFlow: {_say(theirs)}", 0.0)
        return
    if [g is None for g in ours] != [g is None for g in theirs]:
        yield Finding(where, f"{_say(ours)} where TensorFlow: {_say(theirs)}", 0.0)
        return
    names, their_names = ([g.name for g in gs if g is not None] for gs in (ours, theirs))
    reference = run(THEIRS, their_graph, their_names, feeds(case, how))
    tolerance = Tolerance(max(case.tolerance.ulps, _GRADIENT_ULPS), scaled=True)
    found = run(OURS, graph, names, feeds(case, how), config)
    yield Finding(where, *mismatch(found, reference, tolerance))
    if config is not None:
        return
    there = run_elsewhere(THEIRS, OURS.export(graph), names, feeds(case, how), None)
    yield Finding(f"our gradient graph in TensorFlow, {how}", *mismatch(there, reference, tolerance))
    back = run_elsewhere(OURS, THEIRS.export(their_graph), their_names, feeds(case, how), config)
    yield Finding(f"TensorFlow's gradient graph in ours, {how}", *mismatch(back, reference, tolerance))


def _say(made: Outcome | list[Any]) -> str:
    return _said(made) if isinstance(made, Outcome) else str([None if g is None else "gradient" for g in made])
