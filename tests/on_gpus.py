"""Models that are run on a CPU and on a GPU, or its stand-in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import sparkflow as tf

X = np.random.RandomState(0).randn(8, 6).astype(np.float32)
Model = Callable[[], tuple[list[Any], dict[str, Any]]]  # (what to fetch in every step, what to feed by name)


def trained(model: Model, device: str, steps: int = 3, config: Any = None) -> list[np.ndarray]:
    """What the steps fetched, and every variable after them."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(3)
        with tf.device(device):
            fetches, feeds = model()
        init = tf.global_variables_initializer()
        with tf.Session(graph=graph, config=config) as session:
            session.run(init)
            found = [value for _ in range(steps) for value in session.run(fetches, feeds)]
            return [v for v in [*found, *session.run(tf.global_variables())] if v is not None]


def agree(model: Model, steps: int = 3) -> None:
    on_cpu, on_gpu = trained(model, "/cpu:0", steps), trained(model, "/gpu:0", steps)
    assert len(on_cpu) == len(on_gpu) > 0
    for a, b in zip(on_gpu, on_cpu):
        assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
