"""tensorflow.python.ops.resources: what libraries register beside variables to be created before the first step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import Operation, Tensor
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.framework.scopes import add_to_collection, get_collection
from sparkflow.ops.array_join import stack
from sparkflow.ops.array_slice import boolean_mask
from sparkflow.ops.control_flow import group
from sparkflow.ops.math import logical_not
from sparkflow_runtime.wire.dtypes import string


class _Resource(NamedTuple):
    handle: Tensor
    create: Operation
    is_initialized: Tensor


def register_resource(handle: Tensor, create_op: Operation, is_initialized_op: Tensor, is_shared: bool = True) -> None:
    """Among the graph's shared resources, or those of each task where not is_shared."""
    key = GraphKeys.RESOURCES if is_shared else GraphKeys.LOCAL_RESOURCES
    add_to_collection(key, _Resource(handle, create_op, is_initialized_op))


def shared_resources() -> list[_Resource]:
    return get_collection(GraphKeys.RESOURCES)


def local_resources() -> list[_Resource]:
    return get_collection(GraphKeys.LOCAL_RESOURCES)


def initialize_resources(resource_list: Sequence[_Resource], name: str = "init") -> Operation:
    """Creates them all; nothing where there are none."""
    return group(*[resource.create for resource in resource_list], name=name)


def report_uninitialized_resources(
    resource_list: Sequence[_Resource] | None = None, name: str = "report_uninitialized_resources"
) -> Tensor:
    """The names of the handles of those that are not there yet; of all by default."""
    found = [*shared_resources(), *local_resources()] if resource_list is None else resource_list
    if not found:
        return constant([], string, name=name)
    names = constant([resource.handle.name for resource in found], string)
    return boolean_mask(names, logical_not(stack([resource.is_initialized for resource in found])), name=name)
