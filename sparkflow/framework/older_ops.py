"""Nodes that TensorFlow 1 and what came before it wrote, as those of today that do the same: import puts them in their
place. What needs other nodes beside it is in ops/older_import.py."""

from __future__ import annotations

from sparkflow_runtime.wire.dtypes import int32
from sparkflow_runtime.wire.protos import NodeDef

_HANDLES = (  # what referred to queues, tables and readers by names of theirs, before those were resources
    "FIFOQueue RandomShuffleQueue PaddingFIFOQueue PriorityQueue QueueEnqueue QueueEnqueueMany QueueDequeue "
    "QueueDequeueMany QueueDequeueUpTo QueueClose QueueSize QueueIsClosed HashTable MutableHashTable "
    "MutableHashTableOfTensors MutableDenseHashTable LookupTableFind LookupTableInsert LookupTableSize "
    "LookupTableImport LookupTableExport InitializeTable InitializeTableFromTextFile TextLineReader TFRecordReader "
    "WholeFileReader IdentityReader FixedLengthRecordReader ReaderRead ReaderReadUpTo ReaderNumRecordsProduced "
    "ReaderNumWorkUnitsCompleted ReaderReset"
)
RENAMED = {op: f"{op}V2" for op in _HANDLES.split()} | {
    "AccumulateNV2": "AddN", "BatchMatMul": "BatchMatMulV2", "BiasAddV1": "BiasAdd", "Concat": "ConcatV2",
    "Inv": "Reciprocal", "InvGrad": "ReciprocalGrad", "Mod": "TruncateMod",
}  # fmt: skip
_SCALARS_SINCE = 22  # the producer that first meant a scalar by a placeholder's shape []; all before, any shape


def modern(node: NodeDef, producer: int = _SCALARS_SINCE) -> NodeDef:
    """The node itself, or another one in its place. producer: the version of the graph, that functions have not."""
    if node.op in RENAMED:
        return _renamed(node)
    if node.op == "Placeholder" and producer < _SCALARS_SINCE:
        shape = node.attr["shape"].shape if "shape" in node.attr else None
        if shape is not None and not shape.dim and not shape.unknown_rank:
            made = _copy(node)
            made.attr["shape"].shape.unknown_rank = True
            return made
    return node


def _renamed(node: NodeDef) -> NodeDef:
    made = _copy(node)
    made.op = RENAMED[node.op]
    if node.op == "AccumulateNV2":
        made.attr.pop("shape", None)
    elif node.op == "Concat":  # the axis was the first input
        axis, *rest = node.input
        count = node.attr["N"].i
        made.input[:] = [*rest[:count], axis, *rest[count:]]
        made.attr["Tidx"].type = int32.as_datatype_enum
    return made


def _copy(node: NodeDef) -> NodeDef:
    made = NodeDef()
    made.CopyFrom(node)
    return made
