"""Functions without jumps: return, break and continue become names that are set, and what they skip goes elsewhere.

What follows an `if` that jumps goes into its other branch. A loop that is left early has a name in its condition, and
so has what follows a `with`, `try` or `match` that jumps.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import Any

RETURNED, RESULT = "ag_returned", "ag_result"
_LOOPS = (ast.For, ast.While)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def without_jumps(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a function with at most one return, the last one."""
    lowered = _Lowered()
    stmts = lowered.block(body, None, guarded=False)
    if not lowered.returns:
        return stmts
    head = [assign(RESULT, "None")]
    if lowered.flagged:
        head = [assign(RETURNED, "False"), assign(RESULT, f"ag__.Undefined({RESULT!r})")]
        if falls(body):
            stmts = [*stmts, *if_not([RETURNED], [assign(RESULT, "None")])]
    return [*head, *stmts, ast.Return(value=ast.Name(RESULT, ast.Load()))]


class _Loop:
    """The names that one loop's jumps set, and whether they do."""

    def __init__(self, number: int):
        self.broken, self.skipped = f"ag_broken_{number}", f"ag_skipped_{number}"
        self.breaks = self.skips = False


class _Lowered:
    """returns: whether there was a return. flagged: whether a name says that the function has returned."""

    def __init__(self) -> None:
        self.loops, self.returns, self.flagged = 0, False, False

    def block(self, stmts: Sequence[ast.stmt], loop: _Loop | None, guarded: bool) -> list[ast.stmt]:
        """guarded: what comes after the block asks the names whether it was left."""
        out: list[ast.stmt] = []
        for at, stmt in enumerate(stmts):
            rest = list(stmts[at + 1 :])
            match stmt:
                case ast.Return():
                    return [*out, *self._returned(stmt, loop is not None or guarded)]
                case ast.Break() if loop is not None:
                    loop.breaks = True
                    return [*out, assign(loop.broken, "True", stmt)]
                case ast.Continue() if loop is not None:
                    loop.skips = loop.skips or guarded
                    return [*out, *([assign(loop.skipped, "True", stmt)] if guarded else [])]
                case ast.If() if _jumps(stmt):
                    return [*out, self._branches(stmt, rest, loop, guarded)]
                case ast.For() | ast.While():
                    otherwise = stmt.orelse
                    lowered, flags = self._loop(stmt)
                    after = self.block([*if_not(flags, otherwise), *rest], loop, guarded)
                    return [*out, *lowered, *(if_not([RETURNED], after) if RETURNED in flags else after)]
                case ast.With() | ast.Try() | ast.TryStar() | ast.Match() if _jumps(stmt):
                    flags = self._guarded(stmt, loop)
                    return [*out, stmt, *if_not(flags, self.block(rest, loop, guarded))]
                case ast.If() | ast.With() | ast.Try() | ast.TryStar() | ast.Match():
                    out.append(self._without(stmt, loop, guarded))
                case _:
                    out.append(stmt)
        return out

    def _without(self, stmt: Any, loop: _Loop | None, guarded: bool) -> ast.stmt:
        """A statement that nothing jumps out of; there may be loops in it."""
        for part in ("body", "orelse", "finalbody"):
            if getattr(stmt, part, None):
                setattr(stmt, part, self.block(getattr(stmt, part), loop, guarded))
        for inner in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            inner.body = self.block(inner.body, loop, guarded)
        return stmt

    def _returned(self, stmt: ast.Return, flag: bool) -> list[ast.stmt]:
        self.returns, self.flagged = True, self.flagged or flag
        value = stmt.value or ast.copy_location(ast.Constant(None), stmt)
        found: list[ast.stmt] = [ast.copy_location(ast.Assign([ast.Name(RESULT, ast.Store())], value), stmt)]
        return [*found, assign(RETURNED, "True", stmt)] if flag else found

    def _branches(self, stmt: ast.If, rest: list[ast.stmt], loop: _Loop | None, guarded: bool) -> ast.stmt:
        def branch(body: list[ast.stmt], rest: list[ast.stmt]) -> list[ast.stmt]:
            return self.block([*body, *(rest if falls(body) else [])], loop, guarded) or [ast.Pass()]

        body = branch(stmt.body, copy.deepcopy(rest))
        orelse = branch(stmt.orelse, rest)
        return ast.copy_location(ast.If(stmt.test, body, orelse), stmt)

    def _loop(self, stmt: ast.For | ast.While) -> tuple[list[ast.stmt], list[str]]:
        """(the loop without jumps, and without its `else`; the names that say that it was left early)."""
        self.loops += 1
        loop, returned = _Loop(self.loops), _has(stmt.body, ast.Return)
        body = self.block(stmt.body, loop, guarded=False) or [ast.Pass()]
        if loop.skips:
            body = [assign(loop.skipped, "False", stmt), *body]
        flags = ([loop.broken] if loop.breaks else []) + ([RETURNED] if returned else [])
        stmt.body, stmt.orelse = body, []
        stmt.ag_flags = flags  # type: ignore[union-attr]
        out: list[ast.stmt] = [assign(loop.broken, "False", stmt)] if loop.breaks else []
        return [*out, stmt], flags

    def _guarded(self, stmt: ast.With | ast.Try | ast.TryStar | ast.Match, loop: _Loop | None) -> list[str]:
        """Lower what is in it; the names that say that it was left."""
        returned = _has([stmt], ast.Return)
        for part in ("body", "orelse", "finalbody"):
            if getattr(stmt, part, None):
                setattr(stmt, part, self.block(getattr(stmt, part), loop, guarded=True) or [ast.Pass()])
        for inner in (*getattr(stmt, "handlers", ()), *getattr(stmt, "cases", ())):
            inner.body = self.block(inner.body, loop, guarded=True) or [ast.Pass()]
        flags = [RETURNED] if returned else []
        if loop is not None:
            flags += ([loop.broken] if loop.breaks else []) + ([loop.skipped] if loop.skips else [])
        if isinstance(stmt, (ast.Try, ast.TryStar)) and stmt.orelse:
            stmt.orelse = if_not(flags, stmt.orelse) or [ast.Pass()]
        return flags


def falls(stmts: Sequence[ast.stmt]) -> bool:
    """Whether what comes after the statements may be reached."""
    for stmt in stmts:
        match stmt:
            case ast.Return() | ast.Break() | ast.Continue() | ast.Raise():
                return False
            case ast.If(body=body, orelse=orelse) if not falls(body) and not falls(orelse):
                return False
            case ast.With(body=body) if not falls(body):
                return False
            case ast.While(test=ast.Constant(value=True), body=body) if not _has(body, ast.Break):
                return False
    return True


def _jumps(stmt: ast.AST) -> bool:
    """Whether a return in it, or a break or continue of a loop around it, leaves it."""
    if isinstance(stmt, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(stmt, _LOOPS):
        return _has(stmt.body, ast.Return) or any(map(_jumps, stmt.orelse))
    if isinstance(stmt, _FUNCTIONS):
        return False
    parts = (ast.stmt, ast.ExceptHandler, ast.match_case)
    return any(_jumps(child) for child in ast.iter_child_nodes(stmt) if isinstance(child, parts))


def _has(stmts: Sequence[ast.stmt], kind: type[ast.stmt]) -> bool:
    todo: list[ast.AST] = list(stmts)
    while todo:
        node = todo.pop()
        if isinstance(node, kind):
            return True
        if not isinstance(node, _FUNCTIONS):
            todo += ast.iter_child_nodes(node)
    return False


def assign(name: str, value: str, like: ast.AST | None = None) -> ast.stmt:
    """`name = value`, the latter as source text."""
    stmt = ast.Assign([ast.Name(name, ast.Store())], ast.parse(value, mode="eval").body)
    return ast.copy_location(stmt, like) if like is not None else stmt


def if_not(flags: Sequence[str], body: list[ast.stmt]) -> list[ast.stmt]:
    """The body, where none of these names is true; without names the body as it is."""
    if not flags or not body:
        return body
    return [ast.If(test=no(flags), body=body, orelse=[])]


def no(flags: Sequence[str]) -> ast.expr:
    """That none of these names is true."""
    return ast.parse(" and ".join(f"(not {flag})" for flag in flags), mode="eval").body
