"""Nodes of tf.data in graphs that TensorFlow wrote: what they make is fed here.

A graph that was exported where it trained has its input pipeline in it. Datasets and iterators become placeholders
that nobody asks for, what initializes them does nothing, and what an iterator gives become placeholders of its types
(ops/dataset_import.py): so the rest can be used, with other tensors by input_map, or fed.
"""

from __future__ import annotations

import re

from sparkflow_runtime.wire.dtypes import string
from sparkflow_runtime.wire.edges import is_control
from sparkflow_runtime.wire.protos import NodeDef

GIVING = ("IteratorGetNext", "IteratorGetNextSync", "DatasetToSingleElement")  # attributes: output_types, output_shapes
_MAKING = re.compile(
    r"(?!Reduce|InitializeTableFrom)\w*Dataset(V\d)?|(Anonymous|OneShot|Make)?Iterator(V\d)?|IteratorToStringHandle"
    r"|IteratorFromStringHandle(V\d)?"
)


def without_dataset(node: NodeDef) -> NodeDef:
    """The node itself; one that makes or takes a dataset takes none any more."""
    making = _MAKING.fullmatch(node.op)
    if not making and node.op not in GIVING:
        return node
    controls = [edge for edge in node.input if is_control(edge)]
    if making:
        made = NodeDef(name=node.name, op="NoOp" if node.op == "MakeIterator" else "Placeholder", input=controls)
        if made.op == "Placeholder":
            made.attr["dtype"].type = string.as_datatype_enum
            made.attr["shape"].shape.SetInParent()
        return made
    made = NodeDef()
    made.CopyFrom(node)
    made.input[:] = controls
    return made
