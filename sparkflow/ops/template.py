"""make_template: a function that shares the variables of its first call with all later ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.ops.variable_scope import VariableScope, variable_scope
from sparkflow.ops.variables import global_variables, local_variables, trainable_variables


def make_template(
    name_: str, func_: Callable[..., Any], create_scope_now_: bool = False, unique_name_: str | None = None,
    custom_getter_: Any = None, **kwargs: Any,
) -> Template:  # fmt: skip
    """func_ with these keyword arguments, in a variable scope of its own (name_, made unique).

    unique_name_: the scope's name, exactly. create_scope_now_: make the scope now and not at the first call.
    Raises ValueError where a later call makes a variable that the first one did not: it should get_variable the same.
    """
    function = partial(func_, **kwargs) if kwargs else func_
    return Template(name_, function, create_scope_now_, unique_name_, custom_getter_)


class Template:
    """Made by make_template."""

    def __init__(self, name: str, function: Callable[..., Any], now: bool, unique_name: str | None, custom_getter: Any):
        if name is None:
            raise ValueError("name cannot be None.")
        self._function, self._name, self._unique_name, self._getter = function, name, unique_name, custom_getter
        self._scope: VariableScope | None = None
        self._called = False
        if now:
            with self._opened() as self._scope:
                pass

    def _opened(self) -> Any:
        return variable_scope(self._unique_name, default_name=self._name, custom_getter=self._getter)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._scope is None:
            with self._opened() as self._scope:
                return self._first(*args, **kwargs)
        with variable_scope(self._scope, reuse=self._called):
            return self._again(*args, **kwargs) if self._called else self._first(*args, **kwargs)

    def _first(self, *args: Any, **kwargs: Any) -> Any:
        found = self._function(*args, **kwargs)
        self._called = True
        return found

    def _again(self, *args: Any, **kwargs: Any) -> Any:
        before = len(trainable_variables())
        found = self._function(*args, **kwargs)
        if len(trainable_variables()) != before:
            new = [v.name for v in get_default_graph().get_collection("trainable_variables")[before:]]
            raise ValueError(
                f"New variable(s) created when calling a template after the first time: {new}. Make them with "
                "tf.get_variable, which shares them, and not with tf.Variable"
            )
        return found

    name = property(lambda self: self._name)
    func = property(lambda self: self._function)

    @property
    def variable_scope(self) -> VariableScope | None:
        return self._scope

    @property
    def variable_scope_name(self) -> str | None:
        return None if self._scope is None else self._scope.name.removesuffix("/")

    @property
    def _inside(self) -> str:
        """Raises ValueError where the template was not called yet."""
        if self._scope is None:
            raise ValueError(f"Template {self._name!r} was not called yet: it has no variables")
        return self._scope.name + "/"

    @property
    def global_variables(self) -> list[Any]:
        return global_variables(self._inside)

    @property
    def trainable_variables(self) -> list[Any]:
        return trainable_variables(self._inside)

    @property
    def local_variables(self) -> list[Any]:
        return local_variables(self._inside)

    variables = weights = global_variables
    trainable_weights = trainable_variables
