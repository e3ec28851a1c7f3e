"""tf.function: a Python function whose calls put its nodes in the current graph.

Each call traces the function anew, with its control flow converted (sparkflow.autograph) and what it does that lasts in
the order of its statements (framework/program_order.py), so gradients, devices and sessions see plain nodes. What the
function does in Python is done once a call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sparkflow import autograph as _autograph
from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor, is_tensor_like
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.program_order import SCOPES, ProgramOrder, ordered
from sparkflow.framework.shapes import show
from sparkflow.framework.tensor_spec import SparseTensorSpec, TensorSpec, TypeSpec
from sparkflow.ops import array, control_flow
from sparkflow.ops.branches_in_order import after
from sparkflow.ops.sparse import sparse_placeholder
from sparkflow_runtime.wire.errors import UnimplementedError

_as_python = [False]
_VARIABLES = ("VariableV2", "Variable")


def function(
    func: Callable[..., Any] | None = None,
    input_signature: Any = None,
    autograph: bool = True,
    jit_compile: bool | None = None,
    reduce_retracing: bool = False,
    experimental_implements: str | None = None,
    experimental_autograph_options: Any = None,
    experimental_attributes: Any = None,
    experimental_relax_shapes: bool | None = None,
    experimental_compile: bool | None = None,
    experimental_follow_type_hints: bool | None = None,
) -> Any:
    """A decorator, with arguments or without: the function as a Function.

    input_signature: nested TensorSpecs of all arguments; calls are checked against it. autograph: whether Python's
    control flow over tensors becomes the graph's. The others are taken, and change nothing: there is no compiler to
    choose, and every call traces.
    """
    if func is None:
        return functools.partial(function, input_signature=input_signature, autograph=autograph)
    return Function(func, input_signature, autograph)


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether functions run as the Python they are, without conversion or order."""
    _as_python[0] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    return _as_python[0]


class Function:
    """What tf.function makes. Called in a graph, it adds the nodes of one call and returns what the function returns,
    as tensors; what lasts is done before they are known. Of a function that returns nothing, it is the Operation to
    run.

    Raises ValueError where a call makes a variable and an earlier one did, TypeError where the arguments are not those
    of the signature.
    """

    def __init__(self, python_function: Callable[..., Any], input_signature: Any = None, autograph: bool = True):
        if not callable(python_function):
            raise TypeError(f"tf.function: {python_function!r} is not callable")
        if input_signature is not None and not isinstance(input_signature, (list, tuple)):
            raise TypeError(
                f"tf.function: input_signature must be either a tuple or a list, got {type(input_signature).__name__}"
            )
        self._python_function, self._autograph = python_function, autograph
        self._signature = None if input_signature is None else tuple(input_signature)
        self._traced: set[Any] = set()
        self._calls = 0
        self._bound: WeakKeyDictionary[Any, Function] = WeakKeyDictionary()
        functools.update_wrapper(self, python_function)

    python_function = property(lambda self: self._python_function)
    input_signature = property(lambda self: self._signature)
    _sparkflow_do_not_convert = True

    @property
    def name(self) -> str:
        return getattr(self._python_function, "__name__", type(self._python_function).__name__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A method is a function of its own for each object."""
        if instance is None:
            return self
        try:
            found = self._bound.get(instance)
        except TypeError:  # what cannot be a key, or is not to be referred to weakly
            return Function(MethodType(self._python_function, instance), self._signature, self._autograph)
        if found is None:
            weak = _Method(self._python_function, instance)
            found = self._bound[instance] = Function(weak, self._signature, self._autograph)
        return _Bound(found, instance)

    def __repr__(self) -> str:
        return f"<tf.function {self.name!r}>"

    # ------------------------------------------------------------------ calls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _as_python[0]:
            return self._python_function(*args, **kwargs)
        args, kwargs = self._given(args, kwargs)
        graph = get_default_graph()
        self._traced.add(_key([args, kwargs]))
        self._calls += 1
        first, outer = graph.version, graph._order
        order = ProgramOrder() if outer is None else outer
        with graph.name_scope(_scope(self.name)) as scope, ordered(graph, order):
            scopes = graph.extra.setdefault(SCOPES, [])
            scopes.append(scope)
            try:
                result = self._converted()(*args, **kwargs)
            finally:
                scopes.pop()
            self._check_variables(graph.operations_since(first))
            result = nest.map_structure(self._result, result)
            if outer is not None:
                return result
            must_run = list(order.must_run)
            if result is None and must_run:
                return control_flow.group(*must_run)
            return _after(graph, result, must_run)

    def _converted(self) -> Callable[..., Any]:
        return _autograph.convert(self._python_function) if self._autograph else self._python_function

    def _check_variables(self, made: Sequence[Operation]) -> None:
        if self._calls > 1 and any(op.type in _VARIABLES for op in made):
            raise ValueError(
                f"tf.function {self.name!r} made a variable in a call after the first one. tf.function only supports "
                "singleton tf.Variables created on the first call: make it outside, or only where there is none yet"
            )

    def _result(self, leaf: Any) -> Any:
        if leaf is None or nest.composite_of(leaf) is not None:
            return leaf
        if isinstance(leaf, Operation):
            raise TypeError(
                f"tf.function {self.name!r} must return zero or more Tensors, got the Operation {leaf.name!r}. It runs "
                "in any case: return nothing for it"
            )
        try:
            return convert_to_tensor(leaf)
        except (TypeError, ValueError) as error:
            raise TypeError(
                f"tf.function {self.name!r} must return zero or more Tensors, got {leaf!r} ({error})"
            ) from None

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Arrays as tensors, and all by the signature where there is one."""
        if self._signature is None:
            return nest.map_structure(_as_argument, args), nest.map_structure(_as_argument, kwargs)
        given = inspect.signature(self._python_function).bind(*args, **kwargs).args
        if len(given) != len(self._signature):
            raise TypeError(
                f"tf.function {self.name!r} has an input_signature of {len(self._signature)} arguments and is called "
                f"with {len(given)}"
            )
        return tuple(map(self._as_told, self._signature, given)), {}

    def _as_told(self, spec: Any, value: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            if nest.is_nested(spec):
                nest.assert_same_structure(spec, value, check_types=False)
                leaves = [self._as_told(*pair) for pair in zip(nest.flatten(spec), nest.flatten(value))]
                return nest.pack_sequence_as(value, leaves)
            if isinstance(spec, SparseTensorSpec) and not spec.is_compatible_with(value):
                raise self._refused(spec, value)
            return value
        try:
            tensor = convert_to_tensor(value, spec.dtype)
        except (TypeError, ValueError):
            raise self._refused(spec, value) from None
        if not spec.shape.is_compatible_with(tensor.shape):
            raise self._refused(spec, value)
        if spec.shape.rank is not None and not tensor.shape.is_fully_defined():
            tensor = array.identity(tensor)
            tensor.set_shape(spec.shape)
        return tensor

    def _refused(self, spec: Any, value: Any) -> TypeError:
        return TypeError(
            f"tf.function {self.name!r}: an argument is {value!r}, which its input_signature does not allow: {spec!r}"
        )

    # ------------------------------------------------------------------ what it has traced

    def experimental_get_tracing_count(self) -> int:
        """How many combinations of argument types, shapes and Python values it was called with."""
        return len(self._traced)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """One call with placeholders for the TensorSpecs, and for tensors, among the arguments; of an input_signature
        without arguments."""
        if not args and not kwargs and self._signature is not None:
            args = self._signature
        return ConcreteFunction(self, args, kwargs)

    def experimental_get_compiler_ir(self, *args: Any, **kwargs: Any) -> Any:
        raise UnimplementedError("tf.function: there is no XLA here, so no compiler has a representation of it")

    def pretty_printed_concrete_signatures(self, verbose: bool = True) -> str:
        return "\n".join(f"{self.name}{text}" for text in sorted(map(repr, self._traced)))


class _Bound(Function):
    """An object's function, which it shares with others of them, and which keeps the object alive."""

    __slots__ = ("_instance",)

    def __init__(self, function: Function, instance: Any):
        self.__dict__ = function.__dict__
        self._instance = instance


class ConcreteFunction:
    """A call of a function with arguments of certain types. inputs: its placeholders; outputs: what comes of them."""

    def __init__(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]):
        self._function, self._graph = function, get_default_graph()
        self._args, self._kwargs = args, kwargs
        names = list(inspect.signature(function.python_function).parameters)
        given = [*zip([*names, *[f"args_{i}" for i in range(len(names), len(args))]], args), *kwargs.items()]
        self.inputs: list[Any] = []
        self._names: list[str] = []
        self._specs: list[Any] = []
        with self._graph.name_scope(_scope(function.name)):
            made = [nest.map_structure(functools.partial(self._placeholder, name), value) for name, value in given]
        first = self._graph.version
        self.structured_outputs = function(*made[: len(args)], **dict(zip(kwargs, made[len(args) :])))
        self._made = self._graph.operations_since(first)
        self.structured_input_signature = nest.map_structure(_spec_of, (args, kwargs))

    name = property(lambda self: self._function.name)
    graph = property(lambda self: self._graph)
    captured_inputs: Sequence[Tensor] = ()

    def _placeholder(self, name: str, value: Any) -> Any:
        spec = _spec_of(value)
        if not isinstance(spec, TypeSpec):
            return value
        if isinstance(spec, SparseTensorSpec):
            made: Any = sparse_placeholder(spec.dtype, spec.shape, name)
        else:
            name = getattr(spec, "name", None) or name
            made = array.placeholder(spec.dtype, spec.shape, name)
        self.inputs.append(made)
        self._names.append(name)
        self._specs.append(spec)
        return made

    @property
    def outputs(self) -> list[Tensor]:
        if isinstance(self.structured_outputs, Operation):
            return []
        return [t for t in nest.flatten(self.structured_outputs, expand_composites=True) if t is not None]

    @property
    def variables(self) -> tuple[Any, ...]:
        """Those that it reads or changes."""
        named = {t.op for op in self._made for t in op.inputs if t.dtype.is_ref}
        found = [v for key in self._graph.collections for v in self._graph.get_collection(key)]
        own = {id(v): v for v in found if getattr(v, "op", None) in named and hasattr(v, "initializer")}
        return tuple(own.values())

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        return tuple(v for v in self.variables if v.trainable)

    @property
    def structured_output_shapes(self) -> Any:
        return nest.map_structure(lambda t: t.shape, self.structured_outputs)

    output_shapes = structured_output_shapes

    @property
    def output_dtypes(self) -> Any:
        return nest.map_structure(lambda t: t.dtype, self.structured_outputs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The nodes of another call: with the tensors alone, in order or by name. Raises TypeError where one is
        missing, or is of another type or shape."""
        tensors = iter(self._taken([v for v in nest.flatten(list(args)) if _is_tensor_argument(v)], kwargs))

        def filled(value: Any) -> Any:
            return next(tensors) if isinstance(_spec_of(value), TypeSpec) else value

        again = [nest.map_structure(filled, value) for value in (*self._args, *self._kwargs.values())]
        return self._function(*again[: len(self._args)], **dict(zip(self._kwargs, again[len(self._args) :])))

    def _taken(self, positional: list[Any], named: dict[str, Any]) -> list[Any]:
        if len(positional) > len(self._names):
            raise TypeError(f"{self.name}: takes {len(self._names)} tensors {self._names}, got {len(positional)}")
        found = dict(zip(self._names, positional))
        for name, value in named.items():
            if name not in self._names or name in found:
                raise TypeError(f"{self.name}: got {name!r}, which it does not take or already has: {self._names}")
            found[name] = value
        missing = [name for name in self._names if name not in found]
        if missing:
            raise TypeError(f"{self.name}: missing the tensors {missing}, of {self._names}")
        return [self._checked(name, spec, found[name]) for name, spec in zip(self._names, self._specs)]

    def _checked(self, name: str, spec: Any, value: Any) -> Any:
        if not isinstance(spec, TensorSpec):
            return value
        try:
            tensor = convert_to_tensor(value, spec.dtype)
        except (TypeError, ValueError) as error:
            raise TypeError(f"{self.name}: {name!r} must be {spec!r}, got {value!r}") from error
        if not spec.shape.is_compatible_with(tensor.shape):
            raise TypeError(f"{self.name}: {name!r} must have shape {spec.shape}, got {show(tensor._shape)}")
        return tensor

    def __repr__(self) -> str:
        return f"<ConcreteFunction {self.name}({', '.join(self._names)})>"


class _Method:
    """A method that does not keep its object alive."""

    def __init__(self, function: Callable[..., Any], instance: Any):
        import weakref

        self._function, self._instance = function, weakref.ref(instance)
        functools.update_wrapper(self, function)
        self.__signature__ = inspect.signature(MethodType(function, instance))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return MethodType(_autograph.convert(self._function), self._instance())(*args, **kwargs)


def _after(graph: Any, result: Any, ops: list[Operation]) -> Any:
    def known(leaf: Any) -> Any:
        return None if leaf is None else after(graph, leaf, ops) if ops else _fresh(leaf)

    return nest.map_structure(known, result)


def _fresh(leaf: Any) -> Any:
    return nest.map_structure(array.identity, leaf, expand_composites=True)


def _as_argument(value: Any) -> Any:
    return convert_to_tensor(value) if isinstance(value, (np.ndarray, np.generic)) else value


def _is_tensor_argument(value: Any) -> bool:
    return is_tensor_like(value) or isinstance(value, (np.ndarray, np.generic, int, float, bool, list))


def _spec_of(value: Any) -> Any:
    """The TensorSpec of a tensor or an array; other values themselves."""
    if isinstance(value, np.ndarray):
        return TensorSpec(value.shape, value.dtype)
    if isinstance(value, Tensor):
        return TensorSpec(value.shape, value.dtype.base_dtype)
    return value


def _key(given: Any) -> Any:
    """What tells one trace from another: types and shapes of tensors, values of all else."""

    def part(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.dtype.base_dtype.name, value._shape
        try:
            hash(value)
        except TypeError:
            return id(value)
        return type(value).__name__, value if isinstance(value, (str, bytes, int, float, bool, type(None))) else id(
            value
        )

    return tuple(part(leaf) for leaf in nest.flatten(given, expand_composites=True))


def _scope(name: str) -> str:
    kept = "".join(c if c.isalnum() or c in "_.-" else "_" for c in name).lstrip("_-")
    return kept or "function"
