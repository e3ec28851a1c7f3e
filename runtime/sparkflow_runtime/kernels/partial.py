"""The two ends of a partial run: a node that waits for a feed, and one that hands a fetch to the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime.kernels.registry import Node, asynchronous
from sparkflow_runtime.resources.manager import ResourceManager
from sparkflow_runtime.resources.partial import PartialSteps


def partial_steps(resources: ResourceManager) -> PartialSteps:
    return resources.get_or_create("", "_partial_steps", PartialSteps, PartialSteps)


@asynchronous("_PartialFeed")
def _feed(node: Node) -> Callable[..., None]:
    steps, name = partial_steps(node.resources), node.attrs["tensor_name"]

    def run(step: Any, done: Callable[..., None]) -> None:
        boxes = steps.of(step.step_id)
        token = step.on_cancel(lambda error: done(error) if boxes.withdraw(name) else None)

        def taken(value: Any) -> None:
            step.off_cancel(token)
            done(None, (value,))

        boxes.take_later(name, taken)
        if step.error is not None and boxes.withdraw(name):  # cancelled before anyone could wait
            done(step.error)

    return run


@asynchronous("_PartialFetch")
def _fetch(node: Node) -> Callable[..., None]:
    steps, name = partial_steps(node.resources), node.attrs["tensor_name"]

    def run(step: Any, done: Callable[..., None], value: Any = None) -> None:
        steps.of(step.step_id).put(name, value.copy() if isinstance(value, np.ndarray) else value)
        done(None)

    return run
