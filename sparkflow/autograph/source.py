"""A function made anew from its source, its control flow rewritten."""

from __future__ import annotations

import ast
import copy
import inspect
import linecache
from collections.abc import Callable
from functools import lru_cache
from types import CellType, CodeType, FunctionType
from typing import Any

from sparkflow.autograph.rewrite import rewritten, rewritten_expression

_FACTORY, _MADE, _OPERATORS = "ag_factory", "ag_made", "ag__"
_made: dict[tuple[str, CodeType, bool], CodeType | None] = {}  # equal code may be another file's


class NoSource(Exception):
    """A function whose source cannot be read, such as one typed at a prompt."""


def converted(function: FunctionType, operators: Any, called: bool = True) -> FunctionType:
    """The function with its control flow rewritten; it shares globals, defaults and closure with the given one.

    operators: what `ag__` names in it. Raises NoSource.
    """
    code = function.__code__
    if _OPERATORS in code.co_freevars:
        return function  # a function inside one that was converted
    key = code.co_filename, code, called
    if key not in _made:
        _made[key] = _compiled(function, called)
    new = _made[key]
    if new is None:
        raise NoSource(f"the source of {function.__qualname__} in {code.co_filename} cannot be read")
    cells = dict(zip(code.co_freevars, function.__closure__ or ()))
    cells[_OPERATORS] = CellType(operators)
    closure = tuple(cells.get(name) or CellType() for name in new.co_freevars)
    result = FunctionType(new, function.__globals__, function.__name__, function.__defaults__, closure)
    result.__kwdefaults__, result.__qualname__, result.__doc__ = (
        function.__kwdefaults__, function.__qualname__, function.__doc__
    )  # fmt: skip
    result.__annotations__, result.__module__ = function.__annotations__, function.__module__
    result.__dict__.update(function.__dict__)
    return result


def source_after(function: FunctionType, called: bool = True) -> str:
    """The source of what `converted` makes. Raises NoSource."""
    return ast.unparse(_tree(function, called))


def _compiled(function: FunctionType, called: bool) -> CodeType | None:
    """The code of the new function; None where there is no source."""
    try:
        tree = _tree(function, called)
    except NoSource:
        return None
    names = sorted({*function.__code__.co_freevars, _OPERATORS, "__class__"})
    lines = [f"def {_FACTORY}():", *[f"    {name} = None" for name in names], "    pass"]
    module = ast.parse("\n".join(lines))
    tree.name = _MADE  # its own might hide a global one, which a method of that name calls
    module.body[0].body.append(tree)  # type: ignore[attr-defined]
    ast.fix_missing_locations(module)
    code = compile(module, function.__code__.co_filename, "exec", dont_inherit=True, flags=_future(function))
    factory = next(c for c in code.co_consts if isinstance(c, CodeType))
    made = next(c for c in factory.co_consts if isinstance(c, CodeType) and c.co_name == _MADE)
    return made.replace(co_name=function.__code__.co_name, co_qualname=function.__code__.co_qualname)


def _future(function: FunctionType) -> int:
    """The flags of `from __future__ import annotations` and the like."""
    return function.__code__.co_flags & 0x1FE0000


def _tree(function: FunctionType, called: bool) -> ast.FunctionDef:
    if function.__code__.co_name == "<lambda>":
        return _of_lambda(function, called)
    try:
        lines, first = inspect.getsourcelines(function.__code__)  # not of what a decorator's function wraps
        # Under an `if`, source may be indented as it is.
        module = ast.parse("if True:\n" + "".join(lines) if lines[0][:1].isspace() else "".join(lines))
    except (OSError, TypeError, SyntaxError) as error:
        raise NoSource(str(error)) from error
    indented = lines[0][:1].isspace()
    tree = module.body[0].body[0] if indented else module.body[0]  # type: ignore[attr-defined]
    if not isinstance(tree, ast.FunctionDef) or tree.name != function.__code__.co_name:
        raise NoSource(f"{function.__qualname__} is not what its source says")
    ast.increment_lineno(tree, first - 1 - indented)
    tree.decorator_list = []
    return rewritten(_without_values(tree), _owner(function), called)


def _without_values(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Defaults and annotations are the given function's: they are not evaluated again."""
    args, empty = tree.args, ast.Constant(None)
    args.defaults, args.kw_defaults = [empty for _ in args.defaults], [d and empty for d in args.kw_defaults]
    for arg in ast.walk(args):
        if isinstance(arg, ast.arg):
            arg.annotation = None
    tree.returns = None
    return tree


def _owner(function: FunctionType) -> str | None:
    """The class in whose body a method was defined, or what is defined in a method."""
    scopes = [scope.split(".") for scope in function.__code__.co_qualname.split(".<locals>.")]
    return next((scope[-2] for scope in reversed(scopes) if len(scope) > 1), None)


def _of_lambda(function: FunctionType, called: bool) -> ast.FunctionDef:
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    found = [n for n in _lambdas(text) if _is_of(n, code)]
    if not found:
        raise NoSource(f"no such lambda stands at {code.co_filename}:{code.co_firstlineno}")
    node = copy.deepcopy(max(found, key=lambda n: _span(n)[0]))  # the innermost one
    made = ast.parse("def ag_lambda(): pass").body[0]
    assert isinstance(made, ast.FunctionDef)
    made.args, body = node.args, rewritten_expression(node.body, _owner(function), called)
    made.body = [ast.copy_location(ast.Return(body), node.body)]
    return ast.fix_missing_locations(ast.copy_location(_without_values(made), node))


@lru_cache(8)
def _lambdas(text: str) -> list[ast.Lambda]:
    """Those of a source file."""
    try:
        return [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    except SyntaxError as error:
        raise NoSource(str(error)) from error


def _is_of(node: ast.Lambda, code: CodeType) -> bool:
    """Whether the code's instructions stand where the lambda's body does."""
    places = [p for p in code.co_positions() if p[0] and p[2] is not None and p[3]]
    first, last = _span(node)
    arguments = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
    same = arguments == list(code.co_varnames[: code.co_argcount])
    return same and bool(places) and all(first <= (p[0], p[2]) and (p[1], p[3]) <= last for p in places)


def _span(node: ast.Lambda) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    body = node.body
    return (body.lineno, body.col_offset), (body.end_lineno, body.end_col_offset)


def conversion(function: Callable[..., Any]) -> str | None:
    """Why a function stays as it is, None where it can be converted."""
    if not inspect.isfunction(function):
        return "it is no function of Python's"
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return "it is a generator or a coroutine"
    return None
