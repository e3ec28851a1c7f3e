"""A graph as one pass hands it to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime.wire.protos import NodeDef


class NodeList:
    """To read, it is a GraphDef; its nodes are those of other graphs and are not to be changed. Copying them into a
    message of their own takes 4 us each, and of 6,000 nodes a dozen passes make a graph."""

    __slots__ = ("node", "versions")

    def __init__(self, node: Sequence[NodeDef], versions: Any = None):
        self.node, self.versions = list(node), versions
