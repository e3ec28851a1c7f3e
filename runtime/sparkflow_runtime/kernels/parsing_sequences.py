"""SequenceExample messages as columns: the context as of an Example, and lists of features with their steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.parsing import (
    DTYPES,
    Dense,
    Examples,
    dense_columns,
    keys_of,
    kinds_of,
    only,
    ragged_columns,
    sparse_columns,
    splits_of,
    text,
    texts,
)
from sparkflow_runtime.kernels.registry import Node, bound, prepares
from sparkflow_runtime.records import ready
from sparkflow_runtime.records.example import BYTES_LIST, KIND_NAMES, MISSING, BadMessage
from sparkflow_runtime.records.sequences import LOOPS, FeatureList, feature_lists, places, straight
from sparkflow_runtime.wire.errors import InvalidArgumentError

_SINGLE, _MANY = "ParseSingleSequenceExample", "ParseSequenceExampleV2"


class _Lists:
    """The feature lists of some messages. kinds, sizes: as of `straight`; ragged: whether one is asked for so."""

    def __init__(
        self, examples: Examples, keys: Sequence[bytes], kinds: np.ndarray, sizes: np.ndarray, ragged: bool = False
    ):
        self._examples, self._keys = examples, keys
        try:
            self._places = places(examples.found.buffer, examples.starts, examples.ends, keys_of(tuple(keys)))
            self._straight = None if ragged else straight(self._places, kinds, sizes)
            self._lists = feature_lists(self._places) if self._straight is None else []
        except BadMessage as error:
            raise examples.unreadable(error.index) from None

    def sparse(self, column: int, kind: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(indices [n, 3]: message, step, place; values [n]; shape [3])."""
        if self._straight is not None:
            values, indices = self._straight.sparse(column)
            values = self._examples.strings(values) if kind == BYTES_LIST else values
            most, steps = indices[:, 2].max(initial=-1) + 1, self._straight.steps[column]
            return indices, values, np.array([len(steps), steps.max(initial=0), most], np.int64)
        values, steps, lengths = self.ragged(column, kind)
        places = [np.repeat(np.arange(len(steps)), steps), _within(steps)]
        indices = np.stack([*(np.repeat(p, lengths) for p in places), _within(lengths)], 1)
        return indices, values, np.array([len(steps), steps.max(initial=0), lengths.max(initial=0)], np.int64)

    def ragged(self, column: int, kind: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(values, steps of each message, values of each step)."""
        found = self._checked(column, kind)
        try:
            (values,), (lengths,) = found.features.ragged([0], kind)
        except BadMessage as error:
            raise self._examples.unreadable(found.message(error.index)) from None
        return (self._examples.strings(values) if kind == BYTES_LIST else values), found.counts, lengths

    def dense(self, column: int, kind: int, dims: tuple[int, ...], may_miss: bool) -> tuple[np.ndarray, np.ndarray]:
        """([messages, most steps, *dims], filled up with zeros or empty strings; int64[messages], the steps)."""
        size, missing = math.prod(dims), self._places.missing[column]
        if self._straight is None:
            self._checked(column, kind)
        if not may_miss and missing.any():
            raise InvalidArgumentError(
                f"{self._who(int(np.argmax(missing)))}, Feature list '{self._name(column)}' is required but could not "
                "be found.  Did you mean to include it in feature_list_dense_missing_assumed_empty or "
                "feature_list_dense_defaults?"
            )
        if self._straight is None:
            return self._dense_of_odd(column, kind, dims, size)
        steps, out = self._straight.steps[column], self._straight.dense(column, size)
        shape = (*out.shape[:2], *dims)
        if kind == BYTES_LIST:
            out = self._examples.strings(out.reshape(-1, 2))
        return out.reshape(shape), steps

    def _dense_of_odd(self, column: int, kind: int, dims: tuple[int, ...], size: int) -> tuple[np.ndarray, np.ndarray]:
        """The same where a feature of one of the lists is not as it should be."""
        found, key = self._checked(column, kind), self._name(column)
        try:
            (values,), (lengths,) = found.features.dense([0], kind, size)
        except BadMessage as error:
            raise self._examples.unreadable(found.message(error.index)) from None
        if (lengths != size).any():
            i = int(np.argmax(lengths != size))
            message = found.message(i)
            raise InvalidArgumentError(
                f"{self._who(message)}, Feature list: {key}, Index: {i - int(found.counts[:message].sum())}: Number of "
                f"values != expected. values size: {lengths[i]} but output shape: {list(dims)}"
            )
        if kind == BYTES_LIST:
            values = self._examples.strings(values.reshape(-1, 2)).reshape(-1, size)
        steps = found.counts
        most = int(steps.max(initial=0))
        out = np.full((len(steps), most, size), b"" if kind == BYTES_LIST else 0, DTYPES[kind])
        out[np.arange(most) < steps[:, None]] = values
        return out.reshape(len(steps), most, *dims), steps

    def _checked(self, column: int, kind: int) -> FeatureList:
        found = self._lists[column]
        kinds = found.features.kinds[0]
        wrong = (kinds != kind) & (kinds != MISSING)
        if wrong.any():
            i = int(np.argmax(wrong))
            raise InvalidArgumentError(
                f"{self._who(found.message(i))}, Feature list: {self._name(column)}: Data types don't match. Expected "
                f"type: {KIND_NAMES[kind]} but it is a {KIND_NAMES[kinds[i]]}"
            )
        return found

    def _name(self, column: int) -> str:
        return self._keys[column].decode(errors="replace")

    def _who(self, message: int) -> str:
        return self._examples.who(message)


def _within(lengths: np.ndarray) -> np.ndarray:
    """0 .. n - 1 for each n, one after the other."""
    return np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)


Keys = tuple[list[bytes], ...]
Groups = list[list[Any]]


def _parser(node: Node) -> Callable[[Any, Any, Keys, Sequence[bool], Sequence[Any]], Groups]:
    """A function of messages, their names, the keys (context: sparse, dense; lists: sparse, dense; ragged ones of
    both), which of the dense lists may be missing, and defaults. Gives the context's indices, values, shapes and dense
    values, the same of the lists, the steps of the dense ones, and of the ragged ones values and splits, of lists
    twice."""
    a = node.attrs
    types = [
        a["context_sparse_types"],
        a["Tcontext_dense"],
        a["feature_list_sparse_types"],
        a["feature_list_dense_types"],
    ]
    context_sparse, context_dense, list_sparse, list_dense = map(kinds_of, types)
    context_dims, list_dims = ([s.dims for s in a[f"{of}_dense_shapes"]] for of in ("context", "feature_list"))
    of_context, of_lists = (a.get(f"{of}_ragged_value_types") or [] for of in ("context", "feature_list"))
    context_ragged, list_ragged = kinds_of(of_context), kinds_of(of_lists)
    splits = [[t.np for t in a.get(f"{of}_ragged_split_types") or []] for of in ("context", "feature_list")]
    first, plain = len(context_sparse), len(list_sparse) + len(list_dense)
    wanted = [Dense(first + i, k, d) for i, (k, d) in enumerate(zip(context_dense, context_dims))]
    singles = [MISSING] * first + [one.kind if one.is_single else MISSING for one in wanted]
    singles += [MISSING] * len(context_ragged)
    kinds = np.array([*list_sparse, *list_dense], np.int64)
    sizes = np.array([-1] * len(list_sparse) + [math.prod(dims) for dims in list_dims], np.int64)

    def run(serialized: Any, names: Any, keys: Keys, may_miss: Sequence[bool], defaults: Sequence[Any]) -> Groups:
        own, listed = keys[4:] or ([], [])
        examples = Examples(serialized, names, (*keys[0], *keys[1], *own), singles, "SequenceExample")
        lists = _Lists(examples, [*keys[2], *keys[3], *listed], kinds, sizes, bool(listed))
        sparse = sparse_columns(examples, range(first), context_sparse)
        dense = dense_columns(examples, wanted, defaults)
        in_lists = [lists.sparse(i, kind) for i, kind in enumerate(list_sparse)]
        filled = [
            lists.dense(len(keys[2]) + i, kind, dims, missing)
            for i, (kind, dims, missing) in enumerate(zip(list_dense, list_dims, may_miss))
        ]
        groups = [[s[i] for s in group] for group in (sparse, in_lists) for i in range(3)]
        columns = range(len(singles) - len(context_ragged), len(singles))
        cut = ragged_columns(examples, columns, context_ragged)
        single = np.ndim(serialized) == 0
        rows = [lists.ragged(plain + i, kind) for i, kind in enumerate(list_ragged)]
        return [
            *groups[:3], dense, *groups[3:], [v for v, _ in filled], [n for _, n in filled], [v for v, _ in cut],
            [splits_of(n, kind, single) for (_, n), kind in zip(cut, splits[0])], [v for v, _, _ in rows],
            [splits_of(n, kind, single) for (_, n, _), kind in zip(rows, splits[1])],
            [splits_of(n, kind, False) for (_, _, n), kind in zip(rows, splits[1])],
        ]  # fmt: skip

    return run


def _of_one(groups: Groups) -> Groups:
    """The same of a batch of one message, without its first dimension."""
    ci, cv, cs, dense, li, lv, ls, filled, steps, *ragged = groups
    return [
        [i[:, 1:] for i in ci], cv, [s[1:] for s in cs], [only(d) for d in dense],
        [i[:, 1:] for i in li], lv, [s[1:] for s in ls], [only(f) for f in filled], [only(n) for n in steps],
        *ragged,
    ]  # fmt: skip


@bound(_SINGLE, multi=True, stateful=False, devices=("CPU",))
def _parse_single(node: Node) -> Callable[..., Any]:
    a, parse = node.attrs, _parser(node)
    counts = [len(a["context_sparse_types"]), len(a["Tcontext_dense"]), len(a["feature_list_sparse_types"]),
              len(a["feature_list_dense_types"])]  # fmt: skip
    ends = np.cumsum(counts).tolist()

    def run(serialized: Any, may_miss: Any, *rest: Any) -> list[Any]:
        keys = [[text(k) for k in rest[end - n : end]] for n, end in zip(counts, ends)]
        empty, name = set(texts(may_miss)), text(rest[-1])
        missing = [k in empty for k in keys[3]]
        found = parse(
            serialized, [name] if name else [], (keys[0], keys[1], keys[2], keys[3]), missing, rest[ends[-1] : -1]
        )
        return [value for group in _of_one(found)[:8] for value in group]

    return run


@bound(_MANY, multi=True, stateful=False, devices=("CPU",))
def _parse_many(node: Node) -> Callable[..., Any]:
    parse = _parser(node)

    def run(serialized: Any, names: Any, *rest: Any) -> list[Any]:
        context_sparse, context_dense, own, list_sparse, list_dense, listed = map(texts, rest[:6])
        keys = (context_sparse, context_dense, list_sparse, list_dense, own, listed)
        found = parse(serialized, names, keys, np.asarray(rest[6], bool).ravel().tolist(), rest[7:])
        groups = _of_one(found) if np.ndim(serialized) == 0 else found
        in_order = [*groups[:4], *groups[9:11], *groups[4:9], *groups[11:]]
        return [value for group in in_order for value in group]

    return run


def _prepare() -> None:
    ready.prepare()
    for loop in LOOPS:
        loop.prepare()


prepares(_prepare, _SINGLE, _MANY)
