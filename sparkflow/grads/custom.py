"""custom_gradient: a function whose gradient the user writes; and gradients of gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Operation, Tensor, get_default_graph
from sparkflow.framework.scopes import control_dependencies
from sparkflow.framework.shapes import product
from sparkflow.grads.gradients import gradients
from sparkflow.grads.registry import OWN_GRADIENTS
from sparkflow.grads.walk import as_list
from sparkflow.ops import array, array_join, math
from sparkflow.ops.control_flow_while import while_loop
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variable_scope import get_variable_scope, variable_scope
from sparkflow.ops.variables import trainable_variables
from sparkflow_runtime.wire import dtypes


def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """f(*xs) -> (ys, grad_fn) as a function of xs whose gradient is grad_fn(*dys), one value for each x.

    Where f reads trainable variables and grad_fn takes `variables`, it is given them and returns (dxs, dvariables).
    Raises ValueError where grad_fn gives another number of gradients.
    """

    @wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        xs = [convert_to_tensor(x) for x in args]  # f gets the very tensors: it may know them again
        first = graph.version
        ys, grad_fn = f(*xs, **kwargs)
        flat = [convert_to_tensor(y) for y in nest.flatten(ys)]
        used = _variables_of(graph.get_operations()[first:], grad_fn)
        name = f"CustomGradient-{graph.version}"
        own = graph.extra.setdefault(OWN_GRADIENTS, {})
        own[name] = lambda op, *dys: _applied(grad_fn, dys[: len(flat)], len(xs), used)
        reads = [v.value() for v in used]
        with graph.gradient_override_map({"IdentityN": name}):
            passed = array.identity_n([*flat, *xs, *reads])
        return nest.pack_sequence_as(ys, passed[: len(flat)])

    return decorated


def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """f as a function whose gradient is that of the identity: its arguments get what its results do.

    The variables that f reads get none. Raises ValueError where f has another number of results than of arguments.
    """

    @wraps(f)
    @custom_gradient
    def passed(*args: Any, **kwargs: Any) -> tuple[Any, Callable[..., Any]]:
        def grad(*dys: Any, variables: Any = ()) -> Any:
            return (dys, [None] * len(variables)) if variables else dys

        return f(*args, **kwargs), grad

    return passed


def _variables_of(made: list[Operation], grad_fn: Callable[..., Any]) -> list[Any]:
    """The trainable variables that these ops read, where grad_fn wants to know them."""
    taken = inspect.signature(grad_fn).parameters.values()
    if not any(p.name == "variables" or p.kind is p.VAR_KEYWORD for p in taken):
        return []
    read = {t.op for op in made for t in op.inputs} | set(made)
    return [v for v in trainable_variables() if not read.isdisjoint((v.op, v._snapshot.op))]


def _applied(grad_fn: Callable[..., Any], dys: Any, count: int, used: list[Any]) -> list[Any]:
    """Nothing for the results, then what grad_fn says of the arguments and the variables."""
    found, of_variables = grad_fn(*dys, variables=used) if used else (grad_fn(*dys), [])
    dxs = as_list(found)
    if len(dxs) != count or len(as_list(of_variables)) != len(used):
        raise ValueError(f"custom_gradient: the function of {count} arguments and {len(used)} variables has a gradient "
                         f"with {len(dxs)} and {len(as_list(of_variables))} values")  # fmt: skip
    return [None] * len(dys) + dxs + as_list(of_variables)


def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """f, whose inner values are made again by the gradient rather than kept for it: less memory, more arithmetic.

    f makes its variables by get_variable, which the gradient shares. Source: Chen et al. 2016, "Training Deep Nets with
    Sublinear Memory Cost".
    """

    @wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        scope = get_variable_scope()

        @custom_gradient
        def kept(*xs: Any) -> tuple[Any, Callable[..., Any]]:
            def again(*dys: Any, variables: Any = ()) -> Any:
                # Waiting for dys keeps these nodes apart from the first ones, and out of the forward pass.
                with control_dependencies(dys), variable_scope(scope, reuse=True):
                    fresh = [array.identity(x) for x in xs]
                    ys = nest.flatten(f(*fresh, **kwargs))
                found = gradients(ys, [*fresh, *variables], list(dys))
                return (found[: len(xs)], found[len(xs) :]) if variables else found

            return f(*xs, **kwargs), again

        return kept(*args)

    return decorated


def hessians(
    ys: Any, xs: Any, name: str = "hessians", colocate_gradients_with_ops: bool = False, gate_gradients: bool = False,
    aggregation_method: Any = None,
) -> list[Any]:  # fmt: skip
    """The second derivatives of the sum of ys by each x: of shape x.shape + x.shape."""
    with get_default_graph().name_scope(name or "hessians"):
        return [
            _hessian(ys, convert_to_tensor(x, as_ref=True), colocate_gradients_with_ops, gate_gradients)
            for x in as_list(xs)
        ]


def _hessian(ys: Any, x: Any, colocate: bool, gate: bool) -> Any:
    """The gradients of the gradient's elements, one after the other."""
    flat = array.reshape(gradients(ys, x, None, "gradients", colocate, gate)[0], [-1])
    sizes = array.shape(x)
    rows = _rows_side_by_side(flat, x) if _has_loops(flat, x) else _rows_in_a_loop(flat, x)
    return array.reshape(rows, array_join.concat([sizes, sizes], 0))


def _rows_in_a_loop(flat: Tensor, x: Tensor) -> Tensor:
    n = array.size(x)
    rows = TensorArray(x.dtype.base_dtype, n)
    _, rows = while_loop(
        lambda i, _: math.less(i, n),
        lambda i, done: (math.add(i, 1), done.write(i, convert_to_tensor(gradients(flat[i], x)[0]))),
        [convert_to_tensor(0, dtypes.int32), rows],
    )
    return rows.stack()


def _rows_side_by_side(flat: Tensor, x: Tensor) -> Tensor:
    """Of a gradient that goes through loops: each element's gradient pops what these pushed, and they push once for
    each time that they are differentiated. Raises ValueError where the number of elements is not known."""
    n = None if x._shape is None or None in x._shape else product(x._shape)
    if n is None:
        raise ValueError(
            f"hessians: {x.name!r} has shape {x.shape}; through a while_loop only second derivatives by a tensor of "
            "known sizes can be taken: call set_shape on it"
        )
    return array_join.stack([convert_to_tensor(gradients(flat[i], x)[0]) for i in range(n)])


def _has_loops(y: Tensor, x: Tensor) -> bool:
    """Whether y is made of values of loops, those that x is made of left aside."""
    seen, todo = {y.op, x.op}, [y.op]
    while todo:
        op = todo.pop()
        if op.type in ("Exit", "RefExit"):
            return True
        todo += (fresh := {t.op for t in op.inputs} - seen)
        seen |= fresh
    return False
