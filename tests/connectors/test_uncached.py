"""A job is pickled for one worker while the rows of another are read with it."""

from __future__ import annotations

import pickle
from dataclasses import fields
from functools import cached_property
from typing import Any

import cloudpickle
import pyarrow as pa
import pytest

from sparkflow_connectors.column_types import Source
from sparkflow_connectors.job import Job, job_of
from sparkflow_connectors.layout import Layout
from sparkflow_connectors.schema import Columns, resolve


@pytest.fixture
def job() -> Job:
    schema = pa.schema({"user": pa.int64(), "x": pa.list_(pa.float32(), 3), "late": pa.int8()})
    return job_of(len, resolve(schema, ["user", "x"], "late"), "/tmp/none", {"workers": 2})


@pytest.mark.parametrize("kind", [Source, Columns, Layout])
def test_what_was_worked_out_stays_here(job: Job, kind: type) -> None:
    whole = {Source: job.columns.sources["x"], Columns: job.columns, Layout: job.layout}[kind]
    names = {field.name for field in fields(kind)}
    before = pickle.dumps(whole)
    for name, value in vars(kind).items():
        if isinstance(value, cached_property):
            getattr(whole, name)
    assert set(vars(whole)) > names, "something was worked out"
    assert set(whole.__getstate__()) == names
    again = pickle.loads(pickle.dumps(whole))
    assert again == whole == pickle.loads(before)


def test_a_job_can_be_pickled_while_it_is_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thing that is pickled works out its cached properties in the midst of that, as another thread may."""
    given = Source.__getstate__

    def reading(self: Any) -> dict[str, Any]:
        for value in (job.columns, *job.columns.sources.values()):
            for name, member in vars(type(value)).items():
                if isinstance(member, cached_property):
                    getattr(value, name)
        return given(self)

    monkeypatch.setattr(Source, "__getstate__", reading)
    assert pickle.loads(cloudpickle.dumps(job)).columns == job.columns
