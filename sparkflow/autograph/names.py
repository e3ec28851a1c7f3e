"""What statements read and write, by name; and which names are live before a statement.

A name is live where its value may still be read. Statements are those that `jumps` left: without break and continue,
and with a return only at the end.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

Names = set[str]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def reads(node: ast.AST | Sequence[ast.AST]) -> Names:
    """Names that are loaded, those free in functions inside among them."""
    return set(_reads(node))


def _reads(node: ast.AST | Sequence[ast.AST]) -> Iterator[str]:
    if not isinstance(node, ast.AST):
        for item in node:
            yield from _reads(item)
    elif isinstance(node, _COMPREHENSIONS):
        inside = set(_of_children(node))
        yield from inside - {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}
        yield from _reads(node.generators[0].iter)  # which does not see the targets: [x for x in x]
    elif isinstance(node, _SCOPES):
        yield from free_in(node)
    elif isinstance(node, ast.Name):
        if not isinstance(node.ctx, ast.Store):
            yield node.id
    else:
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            yield node.target.id
        yield from _of_children(node)


def _of_children(node: ast.AST) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        yield from _reads(child)


def free_in(function: ast.AST) -> Names:
    """What a function, lambda or class inside takes from around it, or may: all that it names and does not own."""
    named = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
    own: Names = set()
    arguments = getattr(function, "args", None)
    if arguments is not None:
        own = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)}
    body = getattr(function, "body", [])
    if isinstance(body, list):
        told = {n for s in body for d in ast.walk(s) if isinstance(d, (ast.Nonlocal, ast.Global)) for n in d.names}
        own |= writes(body) - told
    defaults = set() if arguments is None else reads([*arguments.defaults, *(d for d in arguments.kw_defaults if d)])
    decorators = reads(getattr(function, "decorator_list", []))
    return (named - own) | defaults | decorators


def writes(node: ast.AST | Iterable[ast.AST]) -> Names:
    """Names that are bound in this scope."""
    return set(_writes(node))


def _writes(node: ast.AST | Iterable[ast.AST]) -> Iterator[str]:
    if not isinstance(node, ast.AST):
        for item in node:
            yield from _writes(item)
        return
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
            return
        case ast.Lambda():
            return
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from ((a.asname or a.name).partition(".")[0] for a in aliases)
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
    inside = ast.iter_child_nodes(node)
    if isinstance(node, _COMPREHENSIONS):  # their targets are their own; a walrus inside binds here
        walrus = (n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        inside = iter(list(walrus))
    for child in inside:
        yield from _writes(child)


def composites(stmts: Sequence[ast.stmt]) -> list[str]:
    """Attributes and items that are assigned, as source text: `self.x`, `d['k']`; of names that stay what they are."""
    bound, found = writes(stmts), dict[str, None]()
    for stmt in stmts:
        for node in here(stmt):
            if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
                text, root = ast.unparse(node), _root(node)
                if root is not None and not (names_of(node) & bound):
                    found[text] = None
    return list(found)


def here(node: ast.AST) -> Iterator[ast.AST]:
    """The node and what is in it, but not what is in functions inside."""
    yield node
    if not isinstance(node, _SCOPES):
        for child in ast.iter_child_nodes(node):
            yield from here(child)


def names_of(node: ast.AST) -> Names:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}


def _root(node: ast.expr) -> str | None:
    """The name that a chain of attributes and plain items begins with."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value):
            return _root(value)
        case ast.Subscript(value=value, slice=ast.Constant() | ast.Name()):
            return _root(value)
    return None


def live_before(stmts: Sequence[ast.stmt], live: Names) -> Names:
    """The names that are live before these statements, where `live` are after them."""
    for stmt in reversed(stmts):
        live = _before(stmt, live)
    return live


def _before(stmt: ast.stmt, live: Names) -> Names:
    match stmt:
        case ast.Return(value=value):
            return reads(value) if value is not None else set()
        case ast.If(test=test, body=body, orelse=orelse):
            return reads(test) | live_before(body, live) | live_before(orelse, live)
        case ast.While(test=test, body=body, orelse=orelse):
            after = reads(test) | live_before(orelse, live) | live
            return around(after, body, set())
        case ast.For(target=target, iter=values, body=body, orelse=orelse):
            after = live_before(orelse, live) | live
            return reads(values) | around(after, body, writes(target)) | (reads(target) - writes(target))
        case ast.With(items=items, body=body):
            return (live_before(body, live) - writes(items)) | reads(items)
        case ast.Assign(targets=targets, value=value):
            killed = {n for t in targets for n in writes(t)}
            return (live - killed) | reads(value) | reads(targets)
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return (live - {name}) | reads(value)
        case ast.FunctionDef() | ast.ClassDef():
            return (live - {stmt.name}) | reads(stmt)
    return live | reads(stmt)


def around(live: Names, body: Sequence[ast.stmt], bound: Names) -> Names:
    """Before the body of a loop: what is read after it, or by the iteration after it."""
    for _ in range(2):  # the second time tells what one iteration leaves for the next
        live = live | (live_before(body, live) - bound)
    return live


def held_by_functions(stmts: Sequence[ast.stmt]) -> Names:
    """Names that functions inside refer to: they may be read whenever those are called."""
    scopes = (n for s in stmts for n in ast.walk(s) if isinstance(n, _SCOPES))
    return {name for scope in scopes for name in free_in(scope)}


def told(stmts: Sequence[ast.stmt]) -> tuple[Names, Names]:
    """The names that this scope says are global, and those it says are nonlocal."""
    nodes = [n for s in stmts for n in here(s)]
    return (
        {n for node in nodes if isinstance(node, ast.Global) for n in node.names},
        {n for node in nodes if isinstance(node, ast.Nonlocal) for n in node.names},
    )
