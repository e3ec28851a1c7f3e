"""Which passes a session wants: ConfigProto.graph_options, read as TensorFlow reads it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from sparkflow_runtime.master.passes.fold import MAX_FOLDED_BYTES
from sparkflow_runtime.wire.protos import ConfigProto, OptimizerOptions, RewriterConfig
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE

GRADIENTS = "gradients/"  # RewriterConfig's default scope


@dataclass(frozen=True)
class Settings:
    """One switch a pass. `column_lookups`, `nested_columns`, `slice_gradients`, `fusion`, `whole_variables`,
    `distinct_rows`, `wide_rows`, `bag_rows`, `embeddings`, `spread_products`, `joint_bags`, `joint_takes`,
    `concat_gradients` and `own_parts` are RewriterConfig's remapping."""

    dependencies: bool = True
    constant_folding: bool = True
    arithmetic: bool = True
    common_subexpressions: bool = True
    column_lookups: bool = True  # of ids that are one column
    nested_columns: bool = True  # put together or taken apart in several steps
    layout: bool = True
    slice_gradients: bool = True  # of tensors that are taken slice by slice
    fusion: bool = True
    control_hops: bool = True  # between tasks
    whole_variables: bool = True  # of another task
    distinct_rows: bool = True  # of look-ups in tables of another task
    wide_rows: bool = True  # of a matrix of ids of one table
    bag_rows: bool = True  # of bags that a layer takes
    embeddings: bool = True  # look-ups in many tables and their updates
    spread_products: bool = True  # of rows that travelled once
    joint_bags: bool = True  # look-ups of several ids
    joint_takes: bool = True  # of accumulators
    concat_gradients: bool = True
    own_parts: bool = True  # of tensors that elementwise work takes apart
    scheduling: bool = True  # for a lower peak of memory
    delays: bool = True  # of variables on their way to another task, for a lower peak there
    swapping: bool = True  # what would take more memory than there is
    swap_hints: bool = True  # inputs that `_swap_to_host` of a node names
    recompute_cheap: bool = False
    recompute_hints: bool = False  # nodes that bear `_recompute_hint`
    aggressive: bool = False  # arithmetic may change the last bits
    max_folded_bytes: int = MAX_FOLDED_BYTES
    carried: str = ""  # as what float32 travels between tasks
    rounds: int = 2  # how often the passes that feed each other are repeated at most
    recompute_for: str = GRADIENTS  # the name scope of nodes whose inputs may be computed again
    memory_limit_bytes: int = 0  # of a device, 0 where it is not known
    open_size: int = 1  # what swapping takes an open dimension for: unless asked for, it acts on what is certain

    @property
    def recomputation(self) -> bool:
        return self.recompute_cheap or self.recompute_hints

    @property
    def swaps(self) -> bool:
        return self.swap_hints or (self.swapping and self.memory_limit_bytes > 0)

    @classmethod
    def none(cls) -> Settings:
        off: dict[str, Any] = {f.name: False for f in fields(cls) if f.type == "bool"}
        return cls(**off)

    @classmethod
    def of(cls, config: ConfigProto | None) -> Settings:
        """OptimizerOptions L0 leaves only what its two flags ask for; a toggle OFF turns its pass off, and
        `disable_meta_optimizer` all of RewriterConfig's."""
        if config is None:
            return cls()
        graph = config.graph_options
        level, rewrite = graph.optimizer_options, graph.rewrite_options
        if level.opt_level == OptimizerOptions.L0 or rewrite.disable_meta_optimizer:
            chosen = replace(
                cls.none(),
                constant_folding=level.do_constant_folding,
                common_subexpressions=level.do_common_subexpression_elimination,
            )
        else:
            chosen = replace(_toggled(rewrite), **_memory(rewrite))
        carried = "bfloat16" if graph.enable_bfloat16_sendrecv else ""
        return replace(chosen, carried=carried, max_folded_bytes=level.max_folded_constant_in_bytes or MAX_FOLDED_BYTES)


_TOGGLES = {
    "dependencies": "dependency_optimization",
    "control_hops": "dependency_optimization",
    "constant_folding": "constant_folding",
    "arithmetic": "arithmetic_optimization",
    "common_subexpressions": "common_subgraph_elimination",
    "layout": "layout_optimizer",
    "column_lookups": "remapping",
    "nested_columns": "remapping",
    "slice_gradients": "remapping",
    "fusion": "remapping",
    "whole_variables": "remapping",
    "distinct_rows": "remapping",
    "wide_rows": "remapping",
    "bag_rows": "remapping",
    "embeddings": "remapping",
    "spread_products": "remapping",
    "joint_bags": "remapping",
    "joint_takes": "remapping",
    "concat_gradients": "remapping",
    "own_parts": "remapping",
}


# What RewriterConfig.optimizers calls them; TensorFlow's other ones change nothing here.
_LISTED = {
    "dependencies": "dependency",
    "control_hops": "dependency",
    "constant_folding": "constfold",
    "arithmetic": "arithmetic",
    "common_subexpressions": "common_subgraph_elimination",
    "layout": "layout",
    "column_lookups": "column_lookups",
    "nested_columns": "nested_columns",
    "slice_gradients": "slice_gradients",
    "fusion": "remap",
    "whole_variables": "whole_variables",
    "distinct_rows": "distinct_rows",
    "wide_rows": "wide_rows",
    "bag_rows": "bag_rows",
    "embeddings": "embeddings",
    "spread_products": "spread_products",
    "joint_bags": "joint_bags",
    "joint_takes": "joint_takes",
    "concat_gradients": "concat_gradients",
    "own_parts": "own_parts",
}


def _toggled(rewrite: RewriterConfig) -> Settings:
    """A list of optimizers says which passes run; their order is ours."""
    if rewrite.optimizers:
        on: dict[str, Any] = {ours: listed in rewrite.optimizers for ours, listed in _LISTED.items()}
    else:
        on = {ours: getattr(rewrite, theirs) != RewriterConfig.OFF for ours, theirs in _TOGGLES.items()}
    aggressive = rewrite.arithmetic_optimization == RewriterConfig.AGGRESSIVE
    rounds = {"DEFAULT_NUM_ITERS": 2, "ONE": 1, "TWO": 2}[
        RewriterConfig.NumIterationsType.Name(rewrite.meta_optimizer_iterations)
    ]
    return Settings(**on, aggressive=aggressive, rounds=rounds)


# RewriterConfig.memory_optimization: the switches that each leaves on. Hints are followed wherever their pass runs.
_MEMORY = ("scheduling", "delays", "swapping", "swap_hints", "recompute_cheap", "recompute_hints")
_MEMORY_ON = {
    RewriterConfig.DEFAULT_MEM_OPT: {"scheduling", "delays", "swapping", "swap_hints"},
    RewriterConfig.NO_MEM_OPT: set[str](),
    RewriterConfig.MANUAL: {"swap_hints", "recompute_hints"},
    RewriterConfig.SWAPPING_HEURISTICS: {"swapping", "swap_hints"},
    RewriterConfig.RECOMPUTATION_HEURISTICS: {"recompute_cheap", "recompute_hints"},
    RewriterConfig.SCHEDULING_HEURISTICS: {"scheduling", "delays"},
    RewriterConfig.HEURISTICS: set(_MEMORY),
}


def _memory(rewrite: RewriterConfig) -> dict[str, Any]:
    """`memory` in a list of optimizers means the hints alone, as in TensorFlow."""
    wanted = rewrite.memory_optimization
    if rewrite.optimizers:
        wanted = RewriterConfig.MANUAL if "memory" in rewrite.optimizers else RewriterConfig.NO_MEM_OPT
    on: dict[str, Any] = {name: name in _MEMORY_ON[wanted] for name in _MEMORY}
    asked = wanted in (RewriterConfig.SWAPPING_HEURISTICS, RewriterConfig.HEURISTICS)
    on["open_size"] = UNKNOWN_SIZE if asked else 1
    return {**on, "recompute_for": rewrite.memory_optimizer_target_node_name_scope or GRADIENTS}
