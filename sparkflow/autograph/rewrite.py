"""A function's syntax tree, with control flow that a graph can have: `if`, `while` and `for` become calls of functions
that get what they run as functions, and so do `and`, `or`, `not`, comparisons, conditional expressions, `assert` and
calls.

    if x > 0:              def then(): nonlocal y; y = x
        y = x              def other(): nonlocal y; y = -x
    else:           ->     def get(): return (y,)
        y = -x             def put(values): nonlocal y; (y,) = values
                           ag__.if_stmt(x > 0, then, other, get, put, ("y",), 1)

Lines stay those of the source, so that errors point there. A name may be undefined where it is not assigned on all ways
(`ag__.Undefined`), which its use tells (`ag__.ld`).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from sparkflow.autograph import names
from sparkflow.autograph.jumps import no, without_jumps
from sparkflow.autograph.names import Names
from sparkflow.autograph.scopes import Unannotated, private, tell_super

_UNTOUCHED = frozenset({"super", "locals", "globals", "vars", "dir", "eval", "exec", "ag__"})
_COMPARED = {ast.Eq: "eq", ast.NotEq: "not_eq"}


def rewritten(function: ast.FunctionDef, owner: str | None, called: bool = True) -> ast.FunctionDef:
    """The function's tree, changed in place. owner: the class whose method it is, for its private names. called:
    whether what it calls is converted too."""
    tell_super(private(function, owner))
    _Function(function, called).run()
    return ast.fix_missing_locations(function)


def rewritten_expression(node: ast.expr, owner: str | None, called: bool = True) -> ast.expr:
    """The same of an expression, such as a lambda's."""
    private(node, owner)
    return _Expressions(frozenset(), called).visit(node)


class _Expressions(ast.NodeTransformer):
    """doubtful: names that may be undefined where they are read."""

    def __init__(self, doubtful: frozenset[str], called: bool):
        self._doubtful, self._called = doubtful, called

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if isinstance(node.ctx, ast.Load) and node.id in self._doubtful:
            return _call("ld", [node], node)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        if any(map(_binds, node.values)):
            return node
        name = "and_" if isinstance(node.op, ast.And) else "or_"
        return _call(name, [_thunk(value) for value in node.values], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        return _call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        if len(node.ops) > 1:
            if any(map(_binds, node.comparators)):
                return node
            pairs = [self._pair(op, value) for op, value in zip(node.ops, node.comparators)]
            return _call("compared", [node.left, *pairs], node)
        return self._one(node)

    def _pair(self, op: ast.cmpop, value: ast.expr) -> ast.expr:
        """How it is compared with what comes before it, and what gives it."""
        left, right = (ast.copy_location(one, value) for one in _names("ag_left", "ag_right"))
        compare = ast.copy_location(ast.Compare(left, [op], [right]), value)
        made = ast.parse("lambda ag_left, ag_right: None", mode="eval").body
        assert isinstance(made, ast.Lambda)
        made.body = self._one(compare)
        return ast.Tuple([ast.copy_location(made, value), _thunk(value)], ast.Load())

    def _one(self, node: ast.Compare) -> ast.expr:
        name = _COMPARED.get(type(node.ops[0]))
        return node if name is None else _call(name, [node.left, node.comparators[0]], node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        text = ast.Constant(ast.unparse(node.test)[:80])
        self.generic_visit(node)
        if _binds(node.body) or _binds(node.orelse):
            return node
        return _call("if_exp", [node.test, _thunk(node.body), _thunk(node.orelse), text], node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = node.func
        if not self._called or (isinstance(function, ast.Name) and function.id in _UNTOUCHED):
            return self.generic_visit(node)
        if ast.unparse(function).endswith("set_loop_options"):
            return ast.copy_location(ast.Constant(None), node)  # outside of a loop's body it says nothing
        self.generic_visit(node)
        of = _of_ag("call")
        if isinstance(function, ast.Attribute):  # Python tells the line of a method's name
            of = _at(of, function.end_lineno, function.end_col_offset)
        elif hasattr(node, "lineno"):
            of = _at(of, node.lineno, node.col_offset)
        return ast.copy_location(ast.Call(of, [node.func, *node.args], node.keywords), node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        own = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        node.args = self._arguments(node.args)
        node.body = _Expressions(self._doubtful - own, self._called).visit(node.body)
        return node

    def _arguments(self, args: ast.arguments) -> ast.arguments:
        args.defaults = [self.visit(d) for d in args.defaults]
        args.kw_defaults = [d and self.visit(d) for d in args.kw_defaults]
        return args

    def visit_ListComp(self, node: ast.AST) -> ast.AST:
        own = {n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)}  # type: ignore[attr-defined]
        first = self.visit(node.generators[0].iter)  # type: ignore[attr-defined]
        node.generators[0].iter = ast.Constant(None)  # type: ignore[attr-defined]
        made = ast.NodeTransformer.generic_visit(_Expressions(self._doubtful - own, self._called), node)
        made.generators[0].iter = first  # type: ignore[attr-defined]
        return made

    visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_ListComp

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        node.args = self._arguments(node.args)
        _Function(node, self._called, self._doubtful).run()
        return node

    def visit_AsyncFunctionDef(self, node: ast.AST) -> ast.AST:
        return node

    visit_ClassDef = visit_AsyncFunctionDef


class _Function:
    """One function's statements. outer: names of the functions around that may be undefined."""

    def __init__(self, function: ast.FunctionDef, called: bool, outer: frozenset[str] = frozenset()):
        self._function, self._called, self._outer, self._count = function, called, outer, 0

    def run(self) -> None:
        function = self._function
        if any(isinstance(n, (ast.Yield, ast.YieldFrom)) for s in function.body for n in names.here(s)):
            return  # a generator runs as Python
        body = without_jumps([Unannotated().visit(stmt) for stmt in function.body])
        self._global, self._nonlocal = names.told(body)
        arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
        bound = names.writes(body) - self._global - self._nonlocal
        branching = [s for s in ast.walk(ast.Module(body, [])) if isinstance(s, (ast.If, ast.While, ast.For))]
        doubtful = (names.writes(branching) & bound) - arguments
        self._held = names.held_by_functions(body)
        self._known = bound | arguments | self._nonlocal | self._global
        outer = self._outer - bound - arguments - self._global
        self._expressions = _Expressions(frozenset(doubtful | outer), self._called)
        docs = body[:1] if body and _is_docstring(body[0]) else []
        undefined = [_parsed(f"{name} = ag__.Undefined({name!r})", function)[0] for name in sorted(doubtful)]
        told = [s for s in body if isinstance(s, (ast.Global, ast.Nonlocal))]  # before their first use
        rest = [s for s in body[len(docs) :] if not isinstance(s, (ast.Global, ast.Nonlocal))]
        function.body = [*docs, *told, *undefined, *self._block(rest, set())] or [ast.Pass()]

    def _block(self, stmts: Sequence[ast.stmt], live: Names) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for stmt in reversed(stmts):
            before = names.live_before([stmt], live)  # before the tree is changed
            out[:0] = self._statement(stmt, live)
            live = before
        return out

    def _statement(self, stmt: ast.stmt, live: Names) -> list[ast.stmt]:
        visit = self._expressions.visit
        match stmt:
            case ast.If():
                return self._if(stmt, live)
            case ast.While():
                return self._while(stmt, live)
            case ast.For():
                return self._for(stmt, live)
            case ast.With():
                stmt.items = [visit(item) for item in stmt.items]
                stmt.body = self._block(stmt.body, live)
            case ast.Try() | ast.TryStar():
                live = live | names.reads(stmt)
                stmt.body = self._block(stmt.body, live)
                for handler in stmt.handlers:
                    handler.body = self._block(handler.body, live)
                stmt.orelse, stmt.finalbody = self._block(stmt.orelse, live), self._block(stmt.finalbody, live)
            case ast.Match():
                stmt.subject = visit(stmt.subject)
                for case in stmt.cases:
                    case.guard = case.guard and visit(case.guard)
                    case.body = self._block(case.body, live)
            case ast.Assert(test=test, msg=message):
                text = visit(message) if message is not None else ast.Constant(ast.unparse(test))
                return [_say(_call("assert_stmt", [visit(test), _thunk(text)], stmt), stmt)]
            case ast.Delete(targets=[ast.Name(id=name)]) if name in self._expressions._doubtful:
                return _parsed(f"{name} = ag__.Undefined({name!r})", stmt)
            case _:
                return [visit(stmt)]
        return [stmt]

    # ------------------------------------------------------------------ branches and loops

    def _if(self, stmt: ast.If, live: Names) -> list[ast.stmt]:
        live = live | self._held
        both = [*stmt.body, *stmt.orelse]
        bound = names.writes(both) & self._known
        out = sorted(bound & live)
        within = names.live_before(stmt.body, live) | names.live_before(stmt.orelse, live)
        state = [*names.composites(both), *out]
        count = len(state)
        state += sorted((bound & within) - live)
        number, text = self._next(), ast.Constant(ast.unparse(stmt.test)[:80])
        test = self._expressions.visit(stmt.test)
        branches = [
            self._define(f"ag_then_{number}", [], self._block(stmt.body, live), bound, stmt),
            self._define(f"ag_else_{number}", [], self._block(stmt.orelse, live), bound, stmt),
        ]
        arguments = [test, *_names(f"ag_then_{number}", f"ag_else_{number}"), *self._access(number)]
        call = _call("if_stmt", [*arguments, _strings(state), ast.Constant(count), text], stmt)
        return [*branches, *self._state(number, state, stmt), _say(call, stmt)]

    def _while(self, stmt: ast.While, live: Names) -> list[ast.stmt]:
        flags = getattr(stmt, "ag_flags", [])
        test = ast.BoolOp(ast.And(), [no(flags), stmt.test]) if flags else stmt.test
        ast.copy_location(test, stmt)
        live = names.live_before([stmt], live) | live | self._held | set(flags)
        number, options = self._next(), self._options(stmt)
        walrus = names.writes(test) & self._known
        bound, state = self._of_loop(stmt.body, walrus, live)
        body = self._define(f"ag_body_{number}", [], self._block(stmt.body, live), bound, stmt)
        check = self._define(f"ag_test_{number}", [], [ast.Return(self._expressions.visit(test))], walrus, stmt)
        arguments = [*_names(f"ag_test_{number}", f"ag_body_{number}"), *self._access(number)]
        call = _call("while_stmt", [*arguments, _strings(state), options], stmt)
        return [body, check, *self._state(number, state, stmt), _say(call, stmt)]

    def _for(self, stmt: ast.For, live: Names) -> list[ast.stmt]:
        flags = getattr(stmt, "ag_flags", [])
        after = live | self._held
        live = names.live_before([stmt], live) | after | set(flags)
        number, options = self._next(), self._options(stmt)
        targets = names.writes(stmt.target)
        inside = names.around(after | set(flags), stmt.body, targets)
        bound, state = self._of_loop(stmt.body, targets, inside)
        values = self._expressions.visit(stmt.iter)
        target = ast.Assign([stmt.target], ast.Name("ag_item", ast.Load()))
        lines = [ast.copy_location(target, stmt), *self._block(stmt.body, inside)]
        body = self._define(f"ag_body_{number}", ["ag_item"], lines, bound | (targets & self._known), stmt)
        more: ast.expr = ast.Constant(None)
        made = [body]
        if flags:
            check = ast.Return(self._expressions.visit(ast.copy_location(no(flags), stmt)))
            made.append(self._define(f"ag_test_{number}", [], [check], set(), stmt))
            more = ast.Name(f"ag_test_{number}", ast.Load())
        arguments = [values, more, *_names(f"ag_body_{number}"), *self._access(number)]
        call = _call("for_stmt", [*arguments, _strings(state), options], stmt)
        return [*made, *self._state(number, state, stmt), _say(call, stmt)]

    def _of_loop(self, body: list[ast.stmt], targets: Names, live: Names) -> tuple[Names, list[str]]:
        """(what the body binds, the names whose values go from one iteration to the next, or out of the loop)."""
        bound = (names.writes(body) | targets) & self._known
        return bound, [*names.composites(body), *sorted(bound & live)]

    def _options(self, stmt: ast.While | ast.For) -> ast.expr:
        """What tf.autograph.experimental.set_loop_options in the body says, as a function; it is taken out of there."""
        for at, inner in enumerate(stmt.body):
            call = inner.value if isinstance(inner, ast.Expr) else None
            if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("set_loop_options"):
                del stmt.body[at]
                stmt.body = stmt.body or [ast.Pass()]
                made = ast.Call(ast.Name("dict", ast.Load()), [], call.keywords)
                return _thunk(self._expressions.visit(ast.copy_location(made, stmt)))
        return ast.Constant(None)

    # ------------------------------------------------------------------ pieces

    def _next(self) -> int:
        self._count += 1
        return self._count

    def _define(self, name: str, args: list[str], body: list[ast.stmt], bound: Names, like: ast.AST) -> ast.FunctionDef:
        head = f"def {name}({', '.join(args)}): pass"
        made = _parsed(head, like)[0]
        assert isinstance(made, ast.FunctionDef)
        made.body = [*self._declared(bound, like), *body] or [ast.Pass()]
        return made

    def _declared(self, bound: Names, like: ast.AST) -> list[ast.stmt]:
        """What binds these names here binds those of the function."""
        outer, inner = sorted(bound & self._global), sorted(bound - self._global)
        lines = ([f"global {', '.join(outer)}"] if outer else []) + ([f"nonlocal {', '.join(inner)}"] if inner else [])
        return [stmt for line in lines for stmt in _parsed(line, like)]

    def _state(self, number: int, state: list[str], like: ast.AST) -> list[ast.stmt]:
        """The functions that give the values of these names, and set them."""
        plain = {s for s in state if s.isidentifier()}
        got = ", ".join(s if s in plain else f"ag__.of(lambda: {s}, {s!r})" for s in state)
        get = self._define(f"ag_get_{number}", [], _parsed(f"return ({got}{',' if state else ''})", like), set(), like)
        lines = [f"{s} = ag_values[{i}]" if s in plain else f"if not isinstance(ag_values[{i}], ag__.Undefined): {s} = "
                 f"ag_values[{i}]" for i, s in enumerate(state)]  # fmt: skip
        body = [stmt for line in lines for stmt in _parsed(line, like)]
        return [get, self._define(f"ag_put_{number}", ["ag_values"], body or [ast.Pass()], plain, like)]

    @staticmethod
    def _access(number: int) -> list[ast.expr]:
        return _names(f"ag_get_{number}", f"ag_put_{number}")


def _of_ag(name: str) -> ast.expr:
    return ast.Attribute(ast.Name("ag__", ast.Load()), name, ast.Load())


def _at(function: ast.expr, line: Any, column: Any) -> ast.expr:
    """With a place within one line: a call of what ends on a later line is told to be there."""
    for node in ast.walk(function):
        node.lineno = node.end_lineno = line  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = column  # type: ignore[attr-defined]
    return function


def _call(name: str, args: list[ast.expr], like: ast.AST) -> ast.expr:
    of = _of_ag(name)
    if isinstance(like, (ast.stmt, ast.expr)) and hasattr(like, "lineno"):
        of = _at(of, like.lineno, like.col_offset)
    return ast.copy_location(ast.Call(of, args, []), like)


def _thunk(value: ast.expr) -> ast.expr:
    empty = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
    return ast.copy_location(ast.Lambda(empty, value), value)


def _say(call: ast.expr, like: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Expr(call), like)


def _parsed(text: str, like: ast.AST) -> list[ast.stmt]:
    """Statements of source text, all at one line of the program."""
    stmts = ast.parse(text).body if not text.startswith("return") else ast.parse(f"def f():\n {text}").body[0].body  # type: ignore[attr-defined]
    for node in (n for s in stmts for n in ast.walk(s)):
        if hasattr(node, "lineno"):
            ast.copy_location(node, like)
    return stmts


def _names(*found: str) -> list[ast.expr]:
    return [ast.Name(name, ast.Load()) for name in found]


def _strings(values: Sequence[str]) -> ast.expr:
    return ast.Tuple([ast.Constant(v) for v in values], ast.Load())


def _binds(node: ast.expr) -> bool:
    """Whether a `:=` in it binds a name of the function around, which a function in its place could not."""
    return any(isinstance(n, ast.NamedExpr) for n in names.here(node))


def _is_docstring(stmt: ast.stmt) -> bool:
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(stmt.value.value, str)
