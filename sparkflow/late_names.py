"""Names that late TensorFlow 1 and programs on tf.compat.v1 use: where each is, loaded when it is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

_BEHAVIOR, _SPECS = "sparkflow.behavior", "sparkflow.type_specs"
LATE_NAMES = {
    **{
        name: (_BEHAVIOR, name)
        for name in (
            "CXX11_ABI_FLAG",
            "CXX_VERSION",
            "MONOLITHIC_BUILD",
            "control_flow_v2_enabled",
            "enable_tensor_equality",
            "enable_v2_behavior",
            "enable_v2_tensorshape",
            "executing_eagerly_outside_functions",
            "is_symbolic_tensor",
            "load_file_system_library",
            "load_library",
            "load_op_library",
            "wrap_function",
        )
    },
    **{
        name: (_SPECS, name)
        for name in (
            "IndexedSlicesSpec",
            "NoneTensorSpec",
            "OptionalSpec",
            "RaggedTensorSpec",
            "TensorArraySpec",
            "type_spec_from_value",
        )
    },
    **{name: ("sparkflow.ops.fourier_axes", f"{name}_op") for name in ("fftnd", "ifftnd", "irfftnd", "rfftnd")},
    "function": ("sparkflow.functions", "function"),
    "GradientTape": ("sparkflow.grads.tape", "GradientTape"),
    "Module": ("sparkflow.module", "Module"),
}


def find(name: str) -> Any:
    """What `tf.<name>` is, None where it is none of these."""
    if name not in LATE_NAMES:
        return None
    module, attribute = LATE_NAMES[name]
    return getattr(import_module(module), attribute)
