"""The GPUs that Spark gives a task."""

from __future__ import annotations

import os

import pytest
from pyspark.resource import ResourceInformation

from sparkflow_connectors.spark import take_gpus


def test_a_task_sees_those_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    take_gpus({})
    assert "CUDA_VISIBLE_DEVICES" not in os.environ
    take_gpus({"gpu": ResourceInformation("gpu", ["2", "3"])})
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "2,3"
