"""What only the place of a function in its source means, told in its tree: private names, super(), annotations."""

from __future__ import annotations

import ast
from typing import Any


def private(node: Any, owner: str | None) -> Any:
    """The tree, changed in place, with names such as `__x` as the class has them in whose body it stands."""
    return node if owner is None or not owner.strip("_") else _Private(owner).visit(node)


def tell_super(method: ast.FunctionDef) -> None:
    """super() as it also works in the functions that branches become."""
    arguments = [*method.args.posonlyargs, *method.args.args]
    for node in ast.walk(method):
        match node:
            case ast.Call(func=ast.Name(id="super"), args=[]) if arguments:
                node.args = [ast.Name(n, ast.Load()) for n in ("__class__", arguments[0].arg)]


class _Private(ast.NodeTransformer):
    """Names such as `__x` as their class has them."""

    def __init__(self, owner: str):
        self._prefix = "_" + owner.lstrip("_")

    def _name(self, name: str) -> str:
        return self._prefix + name if name.startswith("__") and not name.endswith("__") else name

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self._name(node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self._name(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self._name(node.arg)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.name = self._name(node.name)
        return self.generic_visit(node)

    def visit_Global(self, node: ast.Global | ast.Nonlocal) -> ast.AST:
        node.names = [self._name(name) for name in node.names]
        return node

    visit_Nonlocal = visit_Global

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return node  # which has private names of its own


class Unannotated(ast.NodeTransformer):
    """A function's own statements without annotations, which it does not evaluate, and which no name may have that a
    branch shares with it."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        made: ast.stmt = ast.Pass() if node.value is None else ast.Assign([node.target], node.value)
        return ast.copy_location(made, node)

    def visit_FunctionDef(self, node: ast.AST) -> ast.AST:
        return node

    visit_AsyncFunctionDef = visit_ClassDef = visit_Lambda = visit_FunctionDef
