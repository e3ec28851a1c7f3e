"""Frames and guards, found in graphs."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow_runtime.wire.control_flow import DEAD, either, find_guards, find_loops, is_never
from sparkflow_runtime.wire.errors import InvalidArgumentError, UnimplementedError

P, Q = ("p:0", True), ("q:0", True)
NOT_P, NOT_Q = ("p:0", False), ("q:0", False)


def guard(*atoms: tuple[str, bool]) -> frozenset[tuple[str, bool]]:
    return frozenset(atoms)


@pytest.mark.parametrize(
    ("guards", "wanted"),
    [
        ([guard(P), guard(NOT_P)], guard()),
        ([guard(P, Q), guard(NOT_P, Q)], guard(Q)),
        ([guard(P, Q), guard(P, NOT_Q), guard(NOT_P)], guard()),
        ([guard(P), guard(P, Q)], guard(P)),
        ([guard(), guard(P)], guard()),
        ([guard(P, NOT_P), guard(Q)], guard(Q)),
        ([guard(P), guard(Q)], guard(("?m:0", True))),
        ([guard(P, Q), guard(Q, ("r:0", True))], guard(Q, ("?m:0", True))),
    ],
)
def test_either(guards: Any, wanted: Any) -> None:
    assert either(guards, "?m:0") == wanted


def test_never() -> None:
    assert is_never(guard(P, NOT_P, Q)) and not is_never(guard(P, Q)) and repr(DEAD) == "<dead tensor>"


def branch(node: Any) -> list[Any]:
    return [
        node("p", "Placeholder"),
        node("x", "Placeholder"),
        node("id", "Identity", "p"),
        node("s", "Switch", "x", "id"),
        node("neg", "Neg", "s:1"),
        node("side", "NoOp", "^neg"),
        node("trigger", "ControlTrigger", "^neg"),
        node("m", "Merge", "s", "neg"),
        node("end", "Neg", "m"),
    ]


def test_guards_of_a_branch(node: Any) -> None:
    live = find_guards(find_loops(branch(node)))
    guards = {name: set(g) for name, g in live.guards.items()}
    assert guards["neg"] == guards["side"] == {("p:0", True)}
    assert guards["end"] == guards["m"] == guards["trigger"] == guards["s"] == set()
    assert live.of("s") == {("p:0", False)} and live.of("^s") == set()


def test_a_fed_tensor_is_live(node: Any) -> None:
    live = find_guards(find_loops([n for n in branch(node) if n.name not in ("p", "x")], ["p:0", "x:0", "neg:0"]))
    assert live.of("neg") == set() and live.guards["m"] == set()


def loop(node: Any, name: str, start: str, *, inner: str = "") -> list[Any]:
    return [
        node(f"{name}/e", "Enter", start, frame_name=name),
        node(f"{name}/m", "Merge", f"{name}/e", f"{name}/n"),
        node(f"{name}/less", "IsFinite", f"{name}/m"),
        node(f"{name}/c", "LoopCond", f"{name}/less"),
        node(f"{name}/s", "Switch", f"{name}/m", f"{name}/c"),
        node(f"{name}/b", "Neg", inner or f"{name}/s:1"),
        node(f"{name}/n", "NextIteration", f"{name}/b"),
        node(f"{name}/x", "Exit", f"{name}/s"),
    ]


def test_frames(node: Any) -> None:
    nodes = [
        node("a", "Const"),
        *loop(node, "out", "a", inner="in/x"),
        *loop(node, "in", "out/s:1"),
        node("z", "Neg", "out/x"),
    ]
    loops = find_loops(nodes)
    assert loops.owner["out/b"] == ("out",) and loops.owner["in/e"] == loops.owner["in/x"] == ("out", "in")
    assert loops.owner["z"] == () and loops.output_frame(loops.nodes["in/x"]) == ("out",)
    inside = [n.name.split("/")[0] for n in loops.order if "/" in n.name]
    assert inside.index("in") + inside.count("in") - 1 == len(inside) - 1 - inside[::-1].index("in"), "in one piece"
    live = find_guards(loops)
    assert live.irregular is None
    assert live.guards["in/b"] == {("out/c:0", True), ("in/c:0", True)}
    assert live.guards["in/x"] == {("out/c:0", True)} and live.guards["out/x"] == set()


def test_what_is_no_legal_graph(node: Any) -> None:
    nodes = [node("a", "Const"), node("b", "Neg", "a"), *loop(node, "w", "a")]
    with pytest.raises(InvalidArgumentError, match=r"'bad' has inputs from different frames: 'w/b' is in loop 'w'"):
        find_loops([*nodes, node("bad", "Add", "w/b", "b")])
    with pytest.raises(InvalidArgumentError, match=r"'bad' \(Exit\) is not in a loop"):
        find_loops([*nodes, node("bad", "Exit", "b")])
    with pytest.raises(InvalidArgumentError, match="cycle"):
        find_loops([node("x", "Neg", "y"), node("y", "Neg", "x")])
    with pytest.raises(UnimplementedError, match="needs its own result"):
        again = node("again", "Enter", "w/x", frame_name="w", is_constant=True)
        find_loops([*nodes, again])
    with pytest.raises(UnimplementedError, match="needs its own result"):
        again = node("again", "Enter", "back", frame_name="w", is_constant=True)
        find_loops([*nodes, node("back", "Neg", "w/x"), again])


@pytest.mark.parametrize(
    ("name", "inputs", "why"),
    [
        ("w/x", ["w/m"], "leaves in every iteration"),
        ("w/n", ["w/less"], "does not depend on LoopCond"),
        ("w/c", ["w/b"], "not computed in every iteration"),
    ],
)
def test_irregular_loops(node: Any, name: str, inputs: list[str], why: str) -> None:
    nodes = [node("a", "Const"), *loop(node, "w", "a")]
    changed = next(n for n in nodes if n.name == name)
    changed.input[:] = inputs
    if name == "w/c":
        next(n for n in nodes if n.name == "w/b").input[:] = ["w/q:1"]
        nodes.append(node("w/q", "Switch", "w/m", "w/less"))
    assert why in (find_guards(find_loops(nodes)).irregular or "")
