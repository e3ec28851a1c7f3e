"""tf.contrib.opt.ScipyOptimizerInterface: minimizers that call for the loss and its gradient, such as L-BFGS.

Source: tensorflow/contrib/opt/python/training/external_optimizer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np

from sparkflow import logging
from sparkflow.framework.graph import Tensor, default_session
from sparkflow.grads.gradients import gradients
from sparkflow.ops import array, array_join, variables

Bounds = list[tuple[Any, Any]]


class ExternalOptimizerInterface:
    """A subclass defines `_minimize`, which moves one vector of all variables.

    var_list: what is trained, the trainable variables by default. equalities: tensors that are to be 0; inequalities:
    not below 0. var_to_bounds: variable -> (lowest, highest), numbers or arrays of its shape. The other arguments go to
    the minimizer.
    """

    def __init__(
        self, loss: Tensor, var_list: Any = None, equalities: Any = None, inequalities: Any = None,
        var_to_bounds: Mapping[Any, Any] | None = None, **optimizer_kwargs: Any,
    ):  # fmt: skip
        self._loss, self._equalities, self._inequalities = loss, list(equalities or ()), list(inequalities or ())
        self._vars = list(variables.trainable_variables() if var_list is None else var_list)
        self._shapes = [tuple(var.shape.as_list()) for var in self._vars]
        ends = np.cumsum([0, *(int(np.prod(shape, dtype=np.int64)) for shape in self._shapes)])
        self._slices = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        self._bounds = None if var_to_bounds is None else self._packed_bounds(var_to_bounds)
        self._loss_grad = self._gradient(loss)
        self._equality_grads = [self._gradient(equality) for equality in self._equalities]
        self._inequality_grads = [self._gradient(inequality) for inequality in self._inequalities]
        self.optimizer_kwargs = optimizer_kwargs
        self._packed = self._pack(self._vars)
        self._placeholders = [array.placeholder(var.dtype.base_dtype) for var in self._vars]
        self._updates = [
            var.assign(array.reshape(value, shape))
            for var, value, shape in zip(self._vars, self._placeholders, self._shapes)
        ]

    def minimize(
        self, session: Any = None, feed_dict: Any = None, fetches: Any = None,
        step_callback: Callable[[np.ndarray], Any] | None = None, loss_callback: Callable[..., Any] | None = None,
        **run_kwargs: Any,
    ) -> None:  # fmt: skip
        """Move the variables of a session (the default one) to where the minimizer stops.

        fetches: what is run with every loss, for loss_callback(*values). step_callback: called with the vector after
        every step. run_kwargs: of the Session.run that sets the variables.
        """
        found = session or default_session()
        feed, more = dict(feed_dict or {}), list(fetches or ())

        def function(tensors: list[Any], callback: Any, more: list[Any]) -> Callable[[np.ndarray], list[Any]]:
            def evaluate(x: np.ndarray) -> list[Any]:
                parts = [x[part].reshape(shape) for part, shape in zip(self._slices, self._shapes)]
                values = found.run([*tensors, *more], {**dict(zip(self._vars, parts)), **feed})
                if callback is not None:
                    callback(*values[len(tensors) :])
                return values[: len(tensors)]

            return evaluate

        def each(tensors: list[Any]) -> list[Callable[[np.ndarray], Any]]:
            return [partial(_value, function([tensor], None, [])) for tensor in tensors]

        packed = self._minimize(
            initial_val=found.run(self._packed), step_callback=step_callback,
            loss_grad_func=function([self._loss, self._loss_grad], loss_callback, more),
            equality_funcs=each(self._equalities), equality_grad_funcs=each(self._equality_grads),
            inequality_funcs=each(self._inequalities), inequality_grad_funcs=each(self._inequality_grads),
            packed_bounds=self._bounds, optimizer_kwargs=self.optimizer_kwargs,
        )  # fmt: skip
        values = [packed[part] for part in self._slices]
        found.run(self._updates, dict(zip(self._placeholders, values)), **run_kwargs)

    def _minimize(self, initial_val: np.ndarray, loss_grad_func: Any, **settings: Any) -> np.ndarray:
        """The vector at which the loss is least. loss_grad_func(x) -> [loss, gradient]."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it minimizes: define _minimize")

    def _pack(self, tensors: list[Any]) -> Tensor:
        if not tensors:
            raise ValueError("ExternalOptimizerInterface: there are no variables to optimize")
        flat = [array.reshape(tensor, [-1]) for tensor in tensors]
        return flat[0] if len(flat) == 1 else array_join.concat(flat, 0)

    def _gradient(self, tensor: Tensor) -> Tensor:
        found = gradients(tensor, self._vars)
        return self._pack([array.zeros_like(v) if g is None else g for g, v in zip(found, self._vars)])

    def _packed_bounds(self, given: Mapping[Any, Any]) -> Bounds:
        bounds: Bounds = []
        for var, shape in zip(self._vars, self._shapes):
            low, high = given.get(var, (-np.inf, np.inf))
            bounds += zip(np.broadcast_to(low, shape).flat, np.broadcast_to(high, shape).flat)
        return bounds


def _value(function: Callable[[np.ndarray], list[Any]], x: np.ndarray) -> Any:
    return np.float64(function(x)[0])


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """scipy.optimize.minimize, by L-BFGS-B unless method= says another. Needs scipy."""

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(self, initial_val: np.ndarray, loss_grad_func: Any, **settings: Any) -> np.ndarray:
        """Raises ValueError where bounds, callback, jac or constraints are given as the minimizer's."""
        minimize = import_module("scipy.optimize").minimize  # of what is installed beside us

        def both(x: np.ndarray) -> tuple[Any, Any]:
            loss, gradient = loss_grad_func(x)
            return np.float64(loss), np.float64(gradient)

        kwargs = dict(settings["optimizer_kwargs"])
        method = kwargs.pop("method", self._DEFAULT_METHOD)
        kinds = (("eq", "equality_funcs", "equality_grad_funcs"), ("ineq", "inequality_funcs", "inequality_grad_funcs"))
        constraints = [
            {"type": kind, "fun": function, "jac": gradient}
            for kind, functions, grads in kinds
            for function, gradient in zip(settings[functions], settings[grads])
        ]
        own = {
            "jac": True, "callback": settings["step_callback"], "method": method, "constraints": constraints,
            "bounds": settings["packed_bounds"],
        }  # fmt: skip
        taken = sorted(set(kwargs) & set(own))
        if taken:
            told = "use var_to_bounds" if taken == ["bounds"] else "it is set by the interface"
            raise ValueError(f"optimizer_kwargs may not hold {taken[0]!r}: {told}")
        result = minimize(both, np.float64(initial_val), **own, **kwargs)
        logging.info(
            "Optimization terminated with:\n  Message: %s\n  Objective function value: %f\n  Number of iterations: %s\n"
            "  Number of functions evaluations: %s",
            *(result.get(key) for key in ("message", "fun", "nit", "nfev")),
        )
        return result["x"]
