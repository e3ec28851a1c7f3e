"""Metrics of yes and no at thresholds: counts, precision, recall, areas under curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.graph import Tensor, get_default_graph
from sparkflow.keras.metric import Metric, aligned
from sparkflow.losses.weighted import broadcast_weights
from sparkflow.metrics.streaming import of_rank
from sparkflow.ops import (
    array,
    array_select,
    checks,
    math,
    math_reduce,
    nn,
    operators,  # noqa: F401 - x + y on tensors
)

_LOWEST = -1e10
_EDGE = 1e-7  # how far the first and the last threshold lie outside of [0, 1]


def _counts(
    wanted: Sequence[str],
    y_true: Any,
    y_pred: Any,
    thresholds: Sequence[float],
    sample_weight: Any,
    top_k: int | None = None,
    class_id: int | None = None,
) -> dict[str, Tensor]:
    """Of tp, fp, tn and fn those wanted, one for each threshold."""
    p, t = math.cast(convert_to_tensor(y_pred), "float32"), math.cast(convert_to_tensor(y_true), "float32")
    t, p = aligned(t, p)
    if thresholds != [_LOWEST]:
        inside = [
            checks.assert_greater_equal(p, 0.0, message="predictions must be >= 0"),
            checks.assert_less_equal(p, 1.0, message="predictions must be <= 1"),
        ]
        with get_default_graph().control_dependencies(inside):
            p = array.identity(p)
    if top_k is not None:
        least = nn.top_k(p, top_k, sorted=True)[0][..., -1:]
        p = array_select.where(p < least, array.fill(array.shape(p), _LOWEST), p)
    if class_id is not None:
        t, p = t[..., class_id], p[..., class_id]
    weights = None
    if sample_weight is not None:
        weights = of_rank(math.cast(convert_to_tensor(sample_weight), "float32"), p)
        weights = array.reshape(broadcast_weights(weights, p), [1, -1])
    true = math.cast(array.reshape(t, [1, -1]), "bool")
    said = array.reshape(p, [1, -1]) > array.reshape(convert_to_tensor(list(thresholds), dtype="float32"), [-1, 1])
    no, unsaid = math.logical_not(true), math.logical_not(said)
    pairs = {"tp": (true, said), "fp": (no, said), "tn": (no, unsaid), "fn": (true, unsaid)}
    found = {}
    for name in wanted:
        hits = math.cast(math.logical_and(*pairs[name]), "float32")
        found[name] = math_reduce.reduce_sum(hits if weights is None else hits * weights, 1)
    return found


def _thresholds(given: Any, otherwise: float) -> list[float]:
    """Raises ValueError where one is not between 0 and 1."""
    found = [otherwise] if given is None else list(given) if isinstance(given, (list, tuple)) else [given]
    wrong = [x for x in found if x is None or ((x < 0 or x > 1) and x != _LOWEST)]
    if wrong:
        raise ValueError(f"Threshold values must be in [0, 1]. Invalid values: {wrong}")
    return found


class _Counted(Metric):
    """Variables of counts, one for each threshold; `_kept`: their names, and of what."""

    _kept: ClassVar[dict[str, str]] = {}
    top_k: int | None = None
    class_id: int | None = None

    def _begin(self, thresholds: list[float]) -> None:
        self._at = thresholds
        self._of = {of: self.add_weight(name, (len(thresholds),)) for name, of in self._kept.items()}

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        counts = _counts(list(self._of), y_true, y_pred, self._at, sample_weight, self.top_k, self.class_id)
        for of, variable in self._of.items():
            variable.assign_add(counts[of])

    def _single(self, value: Tensor) -> Tensor:
        return value[0] if len(self._at) == 1 else value


class _Count(_Counted):
    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None):
        super().__init__(name, dtype)
        self.thresholds = thresholds
        self._begin(_thresholds(thresholds, 0.5))

    def result(self) -> Tensor:
        return self._single(array.identity(next(iter(self._of.values()))))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "thresholds": self.thresholds}


class TruePositives(_Count):
    _kept: ClassVar[dict[str, str]] = {"accumulator": "tp"}


class FalsePositives(_Count):
    _kept: ClassVar[dict[str, str]] = {"accumulator": "fp"}


class TrueNegatives(_Count):
    _kept: ClassVar[dict[str, str]] = {"accumulator": "tn"}


class FalseNegatives(_Count):
    _kept: ClassVar[dict[str, str]] = {"accumulator": "fn"}


class _Share(_Counted):
    """thresholds: 0.5 by default. top_k: the k best of an example are said yes to. class_id: of one class alone."""

    def __init__(
        self,
        thresholds: Any = None,
        top_k: int | None = None,
        class_id: int | None = None,
        name: str | None = None,
        dtype: Any = None,
    ):
        super().__init__(name, dtype)
        self.thresholds, self.top_k, self.class_id = thresholds, top_k, class_id
        self._begin(_thresholds(thresholds, 0.5 if top_k is None else _LOWEST))

    def result(self) -> Tensor:
        right, wrong = self._of.values()
        return self._single(math.div_no_nan(right, right + wrong))

    def get_config(self) -> dict[str, Any]:
        own = {"thresholds": self.thresholds, "top_k": self.top_k, "class_id": self.class_id}
        return {**super().get_config(), **own}


class Precision(_Share):
    __doc__ = "Of what is said yes to, the share that is true.\n\n" + (_Share.__doc__ or "")
    _kept: ClassVar[dict[str, str]] = {"true_positives": "tp", "false_positives": "fp"}


class Recall(_Share):
    __doc__ = "Of what is true, the share that is said yes to.\n\n" + (_Share.__doc__ or "")
    _kept: ClassVar[dict[str, str]] = {"true_positives": "tp", "false_negatives": "fn"}


_ALL = {"true_positives": "tp", "true_negatives": "tn", "false_positives": "fp", "false_negatives": "fn"}


class AUC(_Counted):
    """The area under the ROC curve, or under precision by recall ("PR"), by num_thresholds counts.

    summation_method: "interpolation" (of "PR" as Davis and Goadrich 2006), "minoring" or "majoring". thresholds: those
    between 0 and 1, instead of evenly spread ones.
    """

    _kept = _ALL

    def __init__(
        self,
        num_thresholds: int = 200,
        curve: str = "ROC",
        summation_method: str = "interpolation",
        name: str | None = None,
        dtype: Any = None,
        thresholds: Any = None,
    ):
        if curve not in ("ROC", "PR"):
            raise ValueError(f"Invalid AUC curve value: {curve!r}; it is ROC or PR")
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError(
                f"Invalid AUC summation method value: {summation_method!r}; it is interpolation, minoring or majoring"
            )
        if thresholds is None and num_thresholds <= 1:
            raise ValueError(f"`num_thresholds` must be > 1, got {num_thresholds}")
        super().__init__(name, dtype)
        self.curve, self.summation_method = curve, summation_method
        inner = sorted(thresholds) if thresholds is not None else None
        if inner is None:
            inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        self._own_thresholds = None if thresholds is None else _thresholds(inner, 0.5)
        self.num_thresholds = len(inner) + 2
        self._begin([-_EDGE, *inner, 1.0 + _EDGE])

    def result(self) -> Tensor:
        tp, tn, fp, fn = self._of.values()
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._between(tp, fp, fn)
        recall = math.div_no_nan(tp, tp + fn)
        x, y = recall, math.div_no_nan(tp, tp + fp)
        if self.curve == "ROC":
            x, y = math.div_no_nan(fp, fp + tn), recall
        if self.summation_method == "interpolation":
            heights = (y[:-1] + y[1:]) / 2.0
        else:
            pick = math.minimum if self.summation_method == "minoring" else math.maximum
            heights = pick(y[:-1], y[1:])
        return math_reduce.reduce_sum((x[:-1] - x[1:]) * heights)

    def _between(self, tp: Any, fp: Any, fn: Any) -> Tensor:
        """Between two thresholds, true positives grow evenly with positives, and precision as their ratio does."""
        tp, fp, fn = (array.identity(v) for v in (tp, fp, fn))
        p = tp + fp
        more = tp[:-1] - tp[1:]
        slope = math.div_no_nan(more, math.maximum(p[:-1] - p[1:], 0.0))
        start = tp[1:] - slope * p[1:]
        both = math.logical_and(p[:-1] > 0.0, p[1:] > 0.0)
        ratio = array_select.where(both, math.div_no_nan(p[:-1], math.maximum(p[1:], 0.0)), array.ones_like(p[1:]))
        steps = slope * (more + start * math.log(ratio))
        return math_reduce.reduce_sum(math.div_no_nan(steps, math.maximum(tp[1:] + fn[1:], 0.0)))

    def get_config(self) -> dict[str, Any]:
        own = {"num_thresholds": self.num_thresholds, "curve": self.curve, "summation_method": self.summation_method}
        return {**super().get_config(), **own, "thresholds": self._own_thresholds}


class _AtValue(_Counted):
    """One share where another is what is asked for."""

    _kept = _ALL

    def __init__(self, value: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None):
        if not 0 <= value <= 1:
            raise ValueError(f"{type(self).__name__}: the value must be in the range [0, 1], got {value}")
        if num_thresholds <= 0:
            raise ValueError(f"`num_thresholds` must be > 0, got {num_thresholds}")
        super().__init__(name, dtype)
        self.value, self.num_thresholds = value, num_thresholds
        inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        self._begin([0.5] if num_thresholds == 1 else [0.0, *inner, 1.0])

    def _best(self, shares: Callable[..., tuple[Tensor, Tensor]]) -> Tensor:
        """The largest of the first share where the second is at least the value."""
        wanted, bound = shares(*self._of.values())
        fits = bound >= self.value
        best = math_reduce.reduce_max(array_select.where(fits, wanted, array.zeros_like(wanted)))
        return best

    def get_config(self) -> dict[str, Any]:
        name = {"SensitivityAtSpecificity": "specificity", "SpecificityAtSensitivity": "sensitivity"}
        key = name.get(type(self).__name__, "value")
        return {**super().get_config(), "num_thresholds": self.num_thresholds, key: self.value}


class SensitivityAtSpecificity(_AtValue):
    """The best share of what is true that is said yes to, where at least `specificity` of the rest is not."""

    def __init__(self, specificity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None):
        super().__init__(specificity, num_thresholds, name, dtype)
        self.specificity = specificity

    def result(self) -> Tensor:
        return self._best(lambda tp, tn, fp, fn: (math.div_no_nan(tp, tp + fn), math.div_no_nan(tn, tn + fp)))


class SpecificityAtSensitivity(_AtValue):
    """The best share of the false that is said no to, where at least `sensitivity` of the true is said yes to."""

    def __init__(self, sensitivity: float, num_thresholds: int = 200, name: str | None = None, dtype: Any = None):
        super().__init__(sensitivity, num_thresholds, name, dtype)
        self.sensitivity = sensitivity

    def result(self) -> Tensor:
        return self._best(lambda tp, tn, fp, fn: (math.div_no_nan(tn, tn + fp), math.div_no_nan(tp, tp + fn)))
