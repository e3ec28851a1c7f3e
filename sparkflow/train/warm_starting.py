"""A training that begins where another one ended: all of its variables or some, under other names, over new words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.ops import array, array_select, array_slice, io, math, state
from sparkflow.ops.variables import Variable, global_variables, trainable_variables
from sparkflow.train.checkpoint_reader import CheckpointReader
from sparkflow.train.checkpoint_state import prefix_of
from sparkflow.train.warm_start import _full_name, init_from_checkpoint
from sparkflow_runtime.wire import dtypes


class VocabInfo(NamedTuple):
    """The words (a line each) that the rows (axis 0) or columns (1) of a variable stand for, now and in a checkpoint.

    new_vocab_size, old_vocab_size: how many lines of each file count, all of the old one for -1. num_oov_buckets: so
    many rows behind those of the words. backup_initializer: of the rows that the checkpoint does not have; zeros.
    """

    new_vocab: str
    new_vocab_size: int
    num_oov_buckets: int
    old_vocab: str
    old_vocab_size: int = -1
    backup_initializer: Callable[..., Any] | None = None
    axis: int = 0


def warm_start(
    ckpt_to_initialize_from: str, vars_to_warm_start: Any = ".*",
    var_name_to_vocab_info: Mapping[str, VocabInfo] | None = None,
    var_name_to_prev_var_name: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """The initializers of variables read a checkpoint from now on. Call it before the op that initializes is made.

    vars_to_warm_start: a regular expression, searched in the names of trainable variables; a list of them, matched
    with those of all global ones; a list of variables; or None, for none but those of var_name_to_vocab_info, whose
    words have changed. var_name_to_prev_var_name: how the checkpoint calls them, where otherwise.
    Raises ValueError on a name that is not used, a tensor that the checkpoint lacks, another shape or dtype.
    """
    vocab, previous = dict(var_name_to_vocab_info or {}), dict(var_name_to_prev_var_name or {})
    chosen = _by_full_name(_chosen(vars_to_warm_start))
    everything = _by_full_name(global_variables())
    chosen.update({name: everything[name] for name in vocab if name in everything})
    for what, names in (("var_name_to_prev_var_name", previous), ("var_name_to_vocab_info", vocab)):
        unused = sorted(set(names) - set(chosen))
        if unused:
            raise ValueError(f"warm_start: {what} names {unused}, which are not started; there are {sorted(chosen)}")
    for name, parts in chosen.items():
        if name in vocab:
            for part in parts:
                _start_words(ckpt_to_initialize_from, previous.get(name, name), part, vocab[name])
        else:
            init_from_checkpoint(ckpt_to_initialize_from, {previous.get(name, name): parts})


def _chosen(wanted: Any) -> Sequence[Variable]:
    if wanted is None or wanted == []:
        return []
    if isinstance(wanted, str):
        return [v for v in trainable_variables() if re.search(wanted, _full_name(v))]
    if not isinstance(wanted, (list, tuple)):
        raise ValueError(f"warm_start: vars_to_warm_start must be None, a str, or a list, got {wanted!r}")
    if all(isinstance(w, str) for w in wanted):
        return [v for v in global_variables() if any(re.match(w, _full_name(v)) for w in wanted)]
    return list(wanted)


def _by_full_name(variables: Sequence[Any]) -> dict[str, list[Variable]]:
    found: dict[str, list[Variable]] = {}
    for variable in variables:
        for part in [variable] if isinstance(variable, Variable) else variable:
            found.setdefault(_full_name(part), []).append(part)
    return found


def _start_words(ckpt: str, name: str, variable: Variable, info: VocabInfo) -> None:
    """The variable's initializer: rows of the checkpoint's tensor where a word was there before, others elsewhere."""
    prefix = prefix_of(ckpt)
    dtype = CheckpointReader(prefix).get_variable_to_dtype_map().get(name)
    if dtype is None:
        raise ValueError(f"warm_start: {name!r} is not found in checkpoint {prefix}")
    graph = get_default_graph()
    with graph.name_scope(None), graph.device(None), graph.control_dependencies(None), graph.colocate_with(variable.op):
        scope = f"warm_start/{variable.op.name}"
        (old,) = io.restore_v2(prefix, [name], [""], [dtype], name=f"{scope}/restore")
        value = _remapped(old, variable, _places(variable, info), info)
        variable._initializer_op = state.assign(variable._variable, value, name=f"{scope}/assign").op
        variable._initial_value = value


def _places(variable: Variable, info: VocabInfo) -> list[int]:
    """For each row (column) of the variable, or of its part: its place in the checkpoint's tensor, -1 if none."""
    old = {word: i for i, word in enumerate(_words(info.old_vocab, info.old_vocab_size))}
    new = [old.get(word, -1) for word in _words(info.new_vocab, info.new_vocab_size)] + [-1] * info.num_oov_buckets
    part = variable._get_save_slice_info()
    whole = variable.shape.as_list() if part is None else part.full_shape
    if len(new) != whole[info.axis]:
        raise ValueError(
            f"warm_start: {_full_name(variable)!r} has size {whole[info.axis]} along axis {info.axis}, its vocabulary "
            f"and buckets {len(new)}"
        )
    first = 0 if part is None else part.var_offset[info.axis]
    return new[first : first + variable.shape.as_list()[info.axis]]  # type: ignore[operator]


def _words(path: str, size: int) -> list[str]:
    with open(path, encoding="utf-8") as file:
        words = file.read().splitlines()
    if size > len(words):
        raise ValueError(f"warm_start: {path} has {len(words)} words, {size} were asked for")
    return words if size < 0 else words[:size]


def _remapped(old: Tensor, variable: Variable, places: list[int], info: VocabInfo) -> Tensor:
    shape = variable.shape.as_list()
    make = info.backup_initializer
    others = array.zeros(shape, old.dtype) if make is None else make(shape, dtype=old.dtype.base_dtype)
    known = [place >= 0 for place in places]
    taken = array_slice.gather(old, [max(place, 0) for place in places], axis=info.axis)
    along = [len(places) if axis == info.axis else 1 for axis in range(len(shape))]
    mask = math.logical_and(array.reshape(known, along), array.ones(shape, dtypes.bool_))
    return array_select.where(mask, array.reshape(taken, shape), others)
