"""Where sparkflow is known to differ from TensorFlow, and why: the suite demands that each of these still differs."""

from __future__ import annotations

from fnmatch import fnmatchcase

_COMPLEX_ZERO = "complex division by zero: which parts are infinite and which nan is open"
_FLOAT_ZERO = (
    "TensorFlow's InternalError for a division by zero is InvalidArgumentError here, as for the other divisions"
)
_OWN = "TensorFlow's kernel is wrong: "

KNOWN = {  # pattern of case ids -> reason
    "MatrixDeterminant-complex*-matrix0": _OWN + "the gradient has the determinant where its conjugate belongs",
    "MatrixDeterminant-complex*-batch0": _OWN + "the gradient has the determinant where its conjugate belongs",
    "Round-int[36][24]-values": _OWN + "whole numbers are rounded to others",
    "Round-int[36][24]-matrix": _OWN + "whole numbers are rounded to others",
    "Reciprocal-complex*-values": _COMPLEX_ZERO,
    "SqrtGrad-complex*-grid": _COMPLEX_ZERO,
    "Log1p-complex*-values": _OWN + "the imaginary part of log1p(-1) is nan",
    "CTCLoss-*-blank-alone": _OWN + "of blanks alone the loss is less than that of the only alignment",
    "Erf-float64-values": _OWN + "erf of an infinity is nan",
    "TruncateDiv-*int*-grid": _FLOAT_ZERO,
    "TruncateDiv-int*-vector-scalar": _FLOAT_ZERO,
    "TruncateDiv-*int*-ranks": _FLOAT_ZERO,
    "PadV2-float*-grad": "the gradient by constant_values, which TensorFlow leaves out",
    "SoftmaxCrossEntropyWithLogits-*-minus-inf": "a label of 0 costs nothing even at -inf; nan in TensorFlow",
    "SoftmaxCrossEntropyWithLogits-*-grad": "the labels' gradient by the second output, which TensorFlow leaves out",
    "Mean-complex*-empty-all": "the mean of no complex numbers is nan, as of no real ones; 0 in TensorFlow",
    "Mean-complex*-empty-kept": "the mean of no complex numbers is nan, as of no real ones; 0 in TensorFlow",
    "Mean-complex*-grad-empty": "the mean of no complex numbers is nan, as of no real ones; 0 in TensorFlow",
}


def reason(case_id: str) -> str:
    """Why this case differs, or nothing."""
    literal = case_id.replace("[", "(").replace("]", ")")
    return next((why for pattern, why in KNOWN.items() if fnmatchcase(literal, pattern)), "")


OWN = {  # op types that TensorFlow does not have, and why
    "RefRngReadAndSkip": "RngReadAndSkip of a variable by reference: tests/ops/test_random_generator.py",
    **dict.fromkeys(
        ("_RowsToGather", "_GatheredRows", "_SplitRows", "_SplitIds"),
        "all tables' gradients of a ring's workers: tests/train/test_distributed_optimizer.py",
    ),
}
