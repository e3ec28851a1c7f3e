"""The tables themselves: every registered op is TensorFlow's op of that name, and is covered by a case or excused."""

from __future__ import annotations

from typing import Any

import pytest
from tensorflow.python.framework import op_def_registry, ops

from sparkflow.framework.registry import Arg, lookup, registered
from sparkflow.grads import registry as gradients
from sparkflow_runtime.kernels.registry import registered as kernels
from sparkflow_runtime.wire.attrs import encode
from sparkflow_runtime.wire.dtypes import as_dtype
from tests.oracle.cases.table import table
from tests.oracle.known import KNOWN, OWN
from tests.oracle.programs import PROGRAMS

NOT_COVERED = {  # op types without a case, and why
    "SaveV2": "checkpoints are safetensors files, which TensorFlow does not read: test_checkpoints.py converts them",
    "RestoreV2": "test_checkpoints.py restores what TensorFlow saved",
    "MergeV2Checkpoints": "checkpoints are safetensors files, which TensorFlow does not read",
    **dict.fromkeys(["PyFunc", "PyFuncStateless"], "a function's token means something in its own process alone"),
    **dict.fromkeys(
        [f"{kind}CandidateSampler" for kind in ("LogUniform", "Uniform", "LearnedUnigram", "FixedUnigram")],
        "random classes: held against their distributions in tests/ops",
    ),
    **dict.fromkeys(
        ["GetSessionHandle", "GetSessionTensor", "DeleteSessionTensor"],
        "a handle means something in its own session alone: tests/session/test_session_handles.py",
    ),
    "Qr": "unique up to signs: its product and its gradients are held in tests/ops and tests/grads",
    "SampleDistortedBoundingBoxV2": "random boxes: held against their bounds in tests/ops",
    **dict.fromkeys(
        [
            *("DecodeJpeg", "DecodeAndCropJpeg", "EncodeJpeg", "EncodeJpegVariableQuality"),
            *("DecodeBmp", "DecodeGif", "DecodePng", "EncodePng"),
        ],
        "the bytes of files, and what a JPEG decodes to, are those of another library",
    ),
    **dict.fromkeys(
        ["Multinomial", "RandomGamma", "RandomPoissonV2"], "random values: test_random.py holds their distributions"
    ),
    "PrintV2": "what it does is to write: tests/ops/test_printing.py reads that",
    "ImageSummary": "its PNG files are compressed by another library: tests/summary compares the pixels",
    **dict.fromkeys(
        [
            *("CollectiveReduce", "CollectiveGather", "CollectiveBcastSend", "CollectiveBcastRecv"),
            *("CollectiveReduceV2", "CollectiveGatherV2", "CollectiveReduceScatterV2"),
        ],
        "they need several processes: tests/session/test_collectives.py holds them against numpy",
    ),
    "StackCloseV2": "it has no result, and what it closes cannot be asked for",
    "TensorArrayGradWithShape": "only functions that TensorFlow maps over a batch (vectorized_map) make it",
    **dict.fromkeys(
        [op for op in registered() if op.startswith(tuple(f"Stateless{kind}" for kind in "MPRST"))],
        "random values: tests/ops/test_random_stateless.py holds their distributions",
    ),
    **dict.fromkeys(
        ["QuantizedRelu", "QuantizedRelu6", "QuantizedReluX"],
        "TensorFlow has no kernel of them: tests/ops/test_quantized.py holds them against their definition",
    ),
    "RefRngReadAndSkip": OWN["RefRngReadAndSkip"],
    "Timestamp": "the time: tests/ops holds it against the clock",
    **dict.fromkeys(["RefMerge", "RefNextIteration"], "no function takes a variable's reference around a loop"),
}

STATEFUL = {  # what lies outside the graph may change: no pass may compute these once and for all
    "ReadFile",
    "MatchingFiles",
    "CountUpTo",
}

NO_GRADIENT = {  # op types whose function in TensorFlow returns nothing but None
    "ArgMax",
    "ArgMin",
    "LoopCond",
    "SparseDenseCwiseAdd",  # whose function raises
}
# op types that are differentiable in TensorFlow and not here
NOT_YET = {"SparseSparseMaximum", "SparseSparseMinimum"}

ALL_OPS = sorted(op for op in registered() if op not in OWN and not op.startswith("_"))  # "_": a pass makes it


def _written(args: Any) -> list[str]:
    """The arguments of a row or of TensorFlow's definition, written alike."""
    return [_row_arg(a) if isinstance(a, Arg) else _definition_arg(a) for a in args]


def _row_arg(arg: Arg) -> str:
    kind = arg.type_attr or (arg.dtype.name if arg.dtype else "")
    listed = f"[{kind}]" if arg.is_type_list else f"{arg.number_attr} * {kind}" if arg.number_attr else kind
    return f"{arg.name}: {'&' if arg.is_ref else ''}{listed}"


def _definition_arg(arg: Any) -> str:
    kind = arg.type_attr or (as_dtype(arg.type).name if arg.type else "")
    listed = (
        f"[{arg.type_list_attr}]" if arg.type_list_attr else f"{arg.number_attr} * {kind}" if arg.number_attr else kind
    )
    return f"{arg.name}: {'&' if arg.is_ref else ''}{listed}"


@pytest.mark.parametrize("op", ALL_OPS)
def test_a_row_is_tensorflows_definition(op: str) -> None:
    row, definition = lookup(op), op_def_registry.get(op)
    assert definition is not None, f"TensorFlow has no op {op!r}"
    assert _written(row.inputs) == _written(definition.input_arg)
    assert _written(row.outputs) == _written(definition.output_arg)
    assert row.stateful == (definition.is_stateful or op in STATEFUL)
    attrs = {attr.name: attr for attr in definition.attr}
    assert set(row.defaults) <= set(attrs)
    for name, value in row.defaults.items():
        if attrs[name].HasField("default_value"):
            assert encode(value).SerializeToString() == attrs[name].default_value.SerializeToString(), name


def test_every_op_and_every_kernel_is_covered() -> None:
    covered = set(table()) | {op for program in PROGRAMS for op in program.ops}
    of_tests = {"NobodysOp"}
    internal = {op for op in (*kernels(), *OWN) if op.startswith("_")}  # a pass makes them of others
    assert (set(registered()) | set(kernels())) - covered - set(NOT_COVERED) - of_tests - internal == set()
    assert covered & set(NOT_COVERED) == set()


def test_every_known_difference_is_a_case() -> None:
    from tests.oracle.known import reason

    ids = [case.id for by_dtype in table().values() for cases in by_dtype.values() for case in cases]
    found = {reason(i) for i in ids} - {""}
    assert found == set(KNOWN.values())


def _theirs(op: str) -> str:
    try:
        return "none" if ops._gradient_registry.lookup(op) is None else "function"
    except LookupError:
        return "missing"


@pytest.mark.parametrize("op", ALL_OPS)
def test_what_is_differentiable(op: str) -> None:
    """What has a gradient in TensorFlow has one here."""
    if op not in NO_GRADIENT | NOT_YET and _theirs(op) == "function":
        assert gradients.listed(op) and gradients._GRADIENTS[op] is not None
