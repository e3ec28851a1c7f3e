"""cond, case and smart_cond: subgraphs of which one runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.constant_value import constant_value
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import array, array_join, math
from sparkflow.ops.branches_in_order import BranchesInOrder
from sparkflow.ops.control_flow import Assert
from sparkflow.ops.control_flow_context import CondContext
from sparkflow.ops.control_flow_nodes import merge, switch
from sparkflow.ops.math_reduce import reduce_sum
from sparkflow_runtime.wire import dtypes

Branch = Callable[[], Any]


def cond(
    pred: Any,
    true_fn: Branch | None = None,
    false_fn: Branch | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Branch | None = None,
    fn2: Branch | None = None,
) -> Any:
    """The results of true_fn() where the bool scalar pred is true, else of false_fn(); the ops of one of them run.

    Both return the same structure (lists, tuples, dicts, IndexedSlices) with leaves of the same types, tensors or what
    converts to them; the result has that structure, and an op stands for itself as a bool tensor that waits for it. A
    list of one is returned as its element unless `strict`. What is made outside the functions runs in any case.
    fn1, fn2: old names. Raises TypeError where the functions are none or pred is a Python bool, ValueError where they
    return nothing or different structures.
    """
    true_fn, false_fn = _one_of("true_fn", true_fn, fn1), _one_of("false_fn", false_fn, fn2)
    if isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool; use a tensor, or Python's if")
    graph = get_default_graph()
    with graph.name_scope(name or "cond"):
        in_order = BranchesInOrder(graph)
        with in_order.waiting():
            pivots, pred = _pivots(pred)
        branches = [_branch(in_order.within(fn), pred, pivots[i], i) for i, fn in ((1, true_fn), (0, false_fn))]
        (context_t, res_t, flat_t), (context_f, res_f, flat_f) = branches
        for label, result in (("true_fn", res_t), ("false_fn", res_f)):
            if result is None:
                raise ValueError(f"{label} must have a return value.")
        if not flat_t and not flat_f:
            raise ValueError("true_fn and false_fn must return at least one result.")
        if not strict:
            res_t, res_f = _sole(res_t), _sole(res_f)
        nest.assert_same_structure(res_t, res_f, expand_composites=True)
        for context in (context_t, context_f):
            graph.add_to_collection(GraphKeys.COND_CONTEXT, context)
        merged = [_merged(f, t) for f, t in zip(flat_f, flat_t, strict=True)]
        in_order.over(merged)
        return nest.pack_sequence_as(res_t, merged, expand_composites=True)


def _one_of(label: str, given: Any, old: Any) -> Branch:
    fn = old if given is None else given
    if not callable(fn):
        raise TypeError(f"cond: {label} must be callable, got {fn!r}")
    return fn


def _pivots(pred: Any) -> tuple[list[Tensor], Tensor]:
    """([alive where false, alive where true], pred under a name of this cond)."""
    p_false, p_true = switch(pred, pred)
    yes, no = array.identity(p_true, name="switch_t"), array.identity(p_false, name="switch_f")
    pred = array.identity(pred, name="pred_id")
    for tensor in (p_true, yes, no, pred):
        tensor.graph.prevent_fetching(tensor.op)
    return [no, yes], pred


def _branch(fn: Branch, pred: Tensor, pivot: Tensor, number: int) -> tuple[CondContext, Any, list[Tensor]]:
    context = CondContext(pred, pivot, number)
    context.Enter()
    try:
        original, leaves = context.BuildCondBranch(fn)
    finally:
        context.Exit()
    return context, original, leaves


def _sole(result: Any) -> Any:
    return result[0] if isinstance(result, (list, tuple)) and len(result) == 1 else result


def _merged(no: Tensor, yes: Tensor) -> Tensor:
    if no.dtype.base_dtype is not yes.dtype.base_dtype:
        raise ValueError(
            "Outputs of true_fn and false_fn must have the same type(s). "
            f"Received {yes.dtype.base_dtype.name} from true_fn and {no.dtype.base_dtype.name} from false_fn."
        )
    return merge([no, yes])[0]


def smart_constant_value(pred: Any) -> bool | None:
    """What pred is already known to be: a Python bool, 0, 1 or a constant tensor. Raises TypeError on anything else."""
    if isinstance(pred, Tensor):
        value = constant_value(pred)
        return None if value is None else bool(value)
    if isinstance(pred, bool) or (isinstance(pred, int) and pred in (0, 1)):
        return bool(pred)
    if hasattr(pred, "_as_graph_element"):  # a variable
        return None
    raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 or 0. Found instead: {pred!r}")


def smart_cond(pred: Any, true_fn: Branch, false_fn: Branch, name: str | None = None) -> Any:
    """true_fn() or false_fn() directly where pred is known while the graph is built, a cond otherwise."""
    for label, fn in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(fn):
            raise TypeError(f"smart_cond: {label} must be callable, got {fn!r}")
    known = smart_constant_value(pred)
    if known is None:
        return cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


# ---------------------------------------------------------------------- case


def case(
    pred_fn_pairs: Any,
    default: Branch | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str = "case",
) -> Any:
    """The result of the first function whose predicate is true, of `default` where none is.

    pred_fn_pairs: a list of (bool scalar tensor, function), or a dict of them (whose order does not matter when
    `exclusive`). exclusive: InvalidArgumentError at run time where more than one predicate is true; and without a
    default, where none is. Structures as in cond.
    """
    pairs = _pairs(pred_fn_pairs)
    with get_default_graph().name_scope(name):
        preds = [p for p, _ in pairs]
        checks = [_at_most_one(preds)] if exclusive else []
        if default is None:
            last_pred, last = pairs[-1]
            default, pairs = _checked(preds, last), pairs[:-1]
        result: Branch = default
        for pred, fn in reversed(pairs):
            result = _nested(pred, fn, result, strict)
        with get_default_graph().control_dependencies(checks):
            return result() if pairs else _alone(last_pred, default, strict)


def switch_case(branch_index: Any, branch_fns: Any, default: Branch | None = None, name: str = "switch_case") -> Any:
    """The result of the function of that number; of `default` (the last one if None) where there is none.

    branch_index: an int32 scalar. branch_fns: a list of functions, or of (number, function), or a dict of them.
    """
    listed = list(branch_fns.items() if isinstance(branch_fns, Mapping) else branch_fns)
    if not listed:
        raise ValueError("switch_case: branch_fns is empty; give at least one function")
    pairs = sorted(listed if isinstance(listed[0], tuple) else enumerate(listed), key=lambda pair: pair[0])
    if len({number for number, _ in pairs}) < len(pairs):
        raise ValueError(f"switch_case: two functions have one number: {[number for number, _ in pairs]}")
    with get_default_graph().name_scope(name):
        index = convert_to_tensor(branch_index, name="branch_index")
        if not index.dtype.is_integer:
            raise TypeError(f"switch_case: 'branch_index' must be an integer Tensor, got {index.dtype}")
        index = math.cast(index, dtypes.int32)
        tests = [(math.equal(index, number), fn) for number, fn in pairs]
        return case(tests, pairs[-1][1] if default is None else default)


def _pairs(given: Any) -> list[tuple[Tensor, Branch]]:
    if not isinstance(given, (list, tuple, Mapping)):
        raise TypeError(f"pred_fn_pairs must be a list, tuple, or dict, got {type(given).__name__}")
    pairs = list(given.items() if isinstance(given, Mapping) else given)
    if not pairs:
        raise ValueError("case: pred_fn_pairs is empty; give at least one (predicate, function)")
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in pred_fn_pairs must be a 2-tuple, got {pair!r}")
        pred, fn = pair
        if not isinstance(pred, Tensor) or pred.dtype.base_dtype is not dtypes.bool_:
            raise TypeError(f"pred must be Tensor of type bool, got {pred!r}")
        if not callable(fn):
            raise TypeError(f"fn for pred {pred.name} must be callable, got {fn!r}")
    return pairs


def _nested(pred: Tensor, fn: Branch, otherwise: Branch, strict: bool) -> Branch:
    return lambda: cond(pred, fn, otherwise, strict=strict)


def _alone(pred: Tensor, fn: Branch, strict: bool) -> Any:
    """A single pair without a default: the function behind its check."""
    result = fn()
    return result if strict else _sole(result)


def _checked(preds: Sequence[Tensor], fn: Branch) -> Branch:
    """fn as the last resort, refused at run time where no predicate is true."""

    def run() -> Any:
        names = ", ".join(p.name for p in preds)
        some = math.greater(_count(preds), 0)
        check = Assert(some, [f"None of the conditions evaluated as True. Conditions: ({names}), Values:", *preds])
        with get_default_graph().control_dependencies([check]):
            return nest.map_structure(_passed, fn(), expand_composites=True)

    return run


def _passed(value: Any) -> Any:
    return array.identity(value) if isinstance(value, Tensor) else value


def _count(preds: Sequence[Tensor]) -> Tensor:
    return reduce_sum(math.cast(array_join.stack(list(preds)), dtypes.int32))


def _at_most_one(preds: Sequence[Tensor]) -> Any:
    names = ", ".join(p.name for p in preds)
    return Assert(
        math.less(_count(preds), 2),
        [f"Input error: exclusive=True: more than 1 conditions ({names}) evaluated as True:", *preds],
        summarize=len(preds),
    )
