"""Stacks: what the gradient of a loop needs of its iterations, last in, first out.

A stack lives for one step: StackV2 makes a new one at every run, and its handle is the stack itself.
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.kernels.host import one_int
from sparkflow_runtime.kernels.registry import Function, Node, bound
from sparkflow_runtime.wire.errors import InvalidArgumentError


class Stack:
    __slots__ = ("limit", "name", "values")

    def __init__(self, name: str, limit: int):
        self.name, self.limit = name, limit
        self.values: list[Any] | None = []

    def held(self) -> list[Any]:
        """Raises InvalidArgumentError once the stack is closed."""
        if self.values is None:
            raise InvalidArgumentError(f"Stack {self.name!r} has been closed")
        return self.values


@bound("StackV2", plain=True)
def _stack(node: Node) -> Function:
    name = node.attr("stack_name") or node.name
    return lambda max_size: Stack(name, one_int(max_size))


@bound("StackPushV2", refs=(0,), aliases=True, plain=True)
def _push(node: Node) -> Function:
    """swap_memory is accepted and changes nothing: values stay where they are."""

    def run(stack: Stack, value: Any) -> Any:
        values = stack.values
        if values is None or len(values) == stack.limit:
            held = stack.held()
            raise InvalidArgumentError(f"Stack {stack.name!r} overflowed its max_size ({len(held)})")
        values.append(value)
        return value

    return run


@bound("StackPopV2", refs=(0,), aliases=True, plain=True)
def _pop(node: Node) -> Function:
    def run(stack: Stack) -> Any:
        if not stack.values:
            stack.held()
            raise InvalidArgumentError(f"Stack {stack.name!r} is empty when {node.name!r} wants to pop")
        return stack.values.pop()

    return run


@bound("StackCloseV2", refs=(0,), multi=True, plain=True)
def _close(node: Node) -> Function:
    def run(stack: Stack) -> tuple[()]:
        stack.values = None
        return ()

    return run
