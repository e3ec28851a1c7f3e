"""Names by which programs ask how TensorFlow behaves, or change it: what holds here, and what cannot be had."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any, NoReturn

from sparkflow.framework.graph import Tensor
from sparkflow.functions import ConcreteFunction, Function
from sparkflow.ops.variable_creators import variable_creator_scope
from sparkflow.ops.variable_scope import AUTO_REUSE, get_variable_scope, variable_scope
from sparkflow_runtime.wire.errors import UnimplementedError

CXX11_ABI_FLAG, CXX_VERSION, MONOLITHIC_BUILD = 1, 201703, 0


def executing_eagerly_outside_functions() -> bool:
    """False, always."""
    return False


def control_flow_v2_enabled() -> bool:
    """False: cond and while_loop make TensorFlow 1's nodes."""
    return False


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a graph."""
    return isinstance(tensor, Tensor)


def enable_v2_behavior() -> NoReturn:
    raise UnimplementedError(
        "tf.enable_v2_behavior: sparkflow has no eager mode; leave the call out, build the graph, and run it with "
        "tf.Session().run(...)"
    )


def enable_tensor_equality() -> NoReturn:
    raise UnimplementedError(
        "tf.enable_tensor_equality: tensors are compared by identity, so that they can be keys; use tf.equal(a, b). In "
        "tf.function, == compares values"
    )


def enable_v2_tensorshape() -> NoReturn:
    raise UnimplementedError(
        "tf.enable_v2_tensorshape: the items of a TensorShape are Dimensions; use shape[i].value, "
        "tf.dimension_value(shape[i]) or shape.as_list()"
    )


def wrap_function(fn: Callable[..., Any], signature: Any, name: str | None = None) -> WrappedFunction:
    """A function of graph-mode code: its variables are made once, whenever it is called. signature: TensorSpecs, or
    dtypes, of its arguments."""
    return WrappedFunction(fn, signature, name)


class WrappedFunction(ConcreteFunction):
    """What wrap_function makes."""

    def __init__(self, fn: Callable[..., Any], signature: Any, name: str | None):
        held: dict[Any, list[Any]] = defaultdict(list)  # by the name asked for, in order

        def traced(*args: Any) -> Any:
            asked: Counter[Any] = Counter()

            def held_or_made(make: Callable[..., Any], **kwargs: Any) -> Any:
                key = kwargs.get("name")
                asked[key] += 1
                if len(held[key]) < asked[key]:
                    held[key].append(make(**kwargs))
                return held[key][asked[key] - 1]

            with variable_creator_scope(held_or_made), variable_scope(get_variable_scope(), reuse=AUTO_REUSE):
                return fn(*args)

        traced.__name__ = str(name or getattr(fn, "__name__", "wrapped"))
        specs = signature if isinstance(signature, (list, tuple)) else [signature]
        super().__init__(Function(traced, autograph=False), tuple(map(_spec, specs)), {})

    def prune(self, feeds: Any, fetches: Any, name: str | None = None, input_signature: Any = None) -> NoReturn:
        raise UnimplementedError(
            "WrappedFunction.prune: its nodes are in the graph itself: run `fetches` in a session and feed `feeds`, or "
            "use tf.graph_util.extract_sub_graph"
        )


def _spec(given: Any) -> Any:
    from sparkflow.framework.tensor_spec import TensorSpec, TypeSpec

    return given if isinstance(given, TypeSpec) else TensorSpec(None, given)


def load_op_library(library_filename: str) -> NoReturn:
    raise UnimplementedError(
        f"tf.load_op_library({library_filename!r}): ops compiled for TensorFlow's C++ runtime cannot be loaded. "
        "Use tf.py_func or tf.numpy_function, or register an op (docs/adding-an-op.md)"
    )


def load_library(library_location: str) -> NoReturn:
    load_op_library(library_location)


load_file_system_library = load_op_library
