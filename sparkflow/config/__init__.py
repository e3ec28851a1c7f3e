"""tf.config: the devices of this machine, and what sessions without a ConfigProto of their own are made with.

What is set here holds for sessions that are made afterwards.
"""

from __future__ import annotations

from types import SimpleNamespace

from sparkflow.config import optimizer, threading
from sparkflow.config.devices import (
    LogicalDevice,
    LogicalDeviceConfiguration,
    PhysicalDevice,
    get_device_details,
    get_logical_device_configuration,
    get_memory_growth,
    get_memory_info,
    get_memory_usage,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    reset_memory_stats,
    set_logical_device_configuration,
    set_memory_growth,
    set_visible_devices,
)
from sparkflow.config.execution import (
    ClusterDeviceFilters,
    disable_mlir_bridge,
    enable_mlir_bridge,
    enable_tensor_float_32_execution,
    experimental_connect_to_cluster,
    experimental_connect_to_host,
    get_device_policy,
    get_soft_device_placement,
    get_synchronous_execution,
    set_device_policy,
    set_soft_device_placement,
    set_synchronous_execution,
    tensor_float_32_execution_enabled,
)
from sparkflow.functions import functions_run_eagerly, run_functions_eagerly

experimental_run_functions_eagerly, experimental_functions_run_eagerly = run_functions_eagerly, functions_run_eagerly
experimental = SimpleNamespace(
    ClusterDeviceFilters=ClusterDeviceFilters,
    VirtualDeviceConfiguration=LogicalDeviceConfiguration,
    disable_mlir_bridge=disable_mlir_bridge,
    enable_mlir_bridge=enable_mlir_bridge,
    enable_tensor_float_32_execution=enable_tensor_float_32_execution,
    get_device_details=get_device_details,
    get_device_policy=get_device_policy,
    get_memory_growth=get_memory_growth,
    get_memory_info=get_memory_info,
    get_memory_usage=get_memory_usage,
    get_synchronous_execution=get_synchronous_execution,
    get_virtual_device_configuration=get_logical_device_configuration,
    get_visible_devices=get_visible_devices,
    list_logical_devices=list_logical_devices,
    list_physical_devices=list_physical_devices,
    reset_memory_stats=reset_memory_stats,
    set_device_policy=set_device_policy,
    set_memory_growth=set_memory_growth,
    set_synchronous_execution=set_synchronous_execution,
    set_virtual_device_configuration=set_logical_device_configuration,
    set_visible_devices=set_visible_devices,
    tensor_float_32_execution_enabled=tensor_float_32_execution_enabled,
)

__all__ = [
    "LogicalDevice", "LogicalDeviceConfiguration", "PhysicalDevice", "experimental", "experimental_connect_to_cluster",
    "experimental_connect_to_host", "experimental_functions_run_eagerly", "experimental_run_functions_eagerly",
    "functions_run_eagerly", "get_logical_device_configuration", "get_soft_device_placement", "get_visible_devices",
    "list_logical_devices", "list_physical_devices", "optimizer", "run_functions_eagerly",
    "set_logical_device_configuration", "set_soft_device_placement", "set_visible_devices", "threading",
]  # fmt: skip
