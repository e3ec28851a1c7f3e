"""Look-up tables pass no gradient on: what they give does not move with their keys."""

from __future__ import annotations

from sparkflow.grads.registry import not_differentiable

not_differentiable(
    *("HashTableV2", "MutableHashTableV2", "MutableHashTableOfTensorsV2", "InitializeTableV2"),
    *("MutableDenseHashTableV2", "InitializeTableFromTextFileV2", "LookupTableFindV2", "LookupTableInsertV2"),
    *("LookupTableSizeV2", "LookupTableRemoveV2", "LookupTableImportV2", "LookupTableExportV2"),
)
