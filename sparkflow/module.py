"""tf.Module: a container of variables and of other modules."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_scopes import NameScope
from sparkflow.framework.tracked import Tracked
from sparkflow.ops.partitioned_variables import PartitionedVariable
from sparkflow.ops.variables import Variable

_NAME = re.compile(r"[A-Za-z_]\w*$")
_WORD_STARTS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class Module(Tracked):
    """name: a valid Python identifier, the class's name in snake case by default. `train.Checkpoint` saves one."""

    _TF_MODULE_IGNORED_PROPERTIES: frozenset[str] = frozenset()

    def __init__(self, name: str | None = None):
        name = _WORD_STARTS.sub("_", type(self).__name__).lower() if name is None else name
        if not _NAME.match(name):
            raise ValueError(f"{name!r} is not a valid module name. Module names must be valid Python identifiers")
        self._name = name
        with get_default_graph().name_scope(name) as scope:
            self._scope_name = scope

    name: str = property(lambda self: self._name)  # type: ignore[assignment]

    @property
    def name_scope(self) -> NameScope:
        """`with` it, ops have names of this module's scope."""
        return get_default_graph().name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Those of its attributes, and of its modules', by attribute names."""
        return tuple(self._flatten(predicate=_is_variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        return tuple(v for v in self.variables if v.trainable)

    @property
    def non_trainable_variables(self) -> tuple[Any, ...]:
        return tuple(v for v in self.variables if not v.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules in it, those in these among them."""
        return tuple(self._flatten(predicate=lambda value: isinstance(value, Module)))

    def _flatten(
        self, recursive: bool = True, predicate: Callable[[Any], bool] | None = None,
        attribute_traversal_key: Any = None, with_path: bool = False, expand_composites: bool = False,
    ) -> Iterator[Any]:  # fmt: skip
        """What its attributes hold, in lists and dicts too, each once. with_path: (path, value)."""
        chosen = predicate if predicate is not None else lambda _: True
        seen: set[int] = {id(self)}
        for path, value in _walk(self, (), recursive, chosen, attribute_traversal_key, seen):
            yield (path, value) if with_path else value

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """A decorator of methods: their ops have names of the module's scope."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _is_variable(value: Any) -> bool:
    return isinstance(value, (Variable, PartitionedVariable))


def _walk(
    module: Module, path: tuple[Any, ...], recursive: bool, chosen: Callable[[Any], bool], key: Any, seen: set[int]
) -> Iterator[tuple[tuple[Any, ...], Any]]:
    inner: list[tuple[tuple[Any, ...], Module]] = []
    for name in sorted(vars(module), key=key):
        if name in module._TF_MODULE_IGNORED_PROPERTIES:
            continue
        for at, leaf in _leaves(vars(module)[name], (*path, name)):
            if id(leaf) in seen:
                continue
            if chosen(leaf):
                seen.add(id(leaf))
                yield at, leaf
            if recursive and isinstance(leaf, Module):
                seen.add(id(leaf))
                inner.append((at, leaf))
    for at, submodule in inner:
        yield from _walk(submodule, at, recursive, chosen, key, seen)


def _leaves(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """An attribute's value, or those in its lists and dicts, by keys."""
    if isinstance(value, Mapping):
        try:
            keys = sorted(value)
        except TypeError:
            keys = list(value)
        for key in keys:
            yield from _leaves(value[key], (*path, key))
    elif isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from _leaves(item, (*path, i))
    else:
        yield path, value
