"""What a synchronous replica is told of the chief's tokens, where the chief is of a job of its own."""

from __future__ import annotations

import re
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.train import sync_agreement
from tests.train.test_sync_replicas import build, servers, sgd

__all__ = ["servers"]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_chief_of_a_job_of_its_own_is_one_of_the_replicas(
    servers: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any, rank: int
) -> None:
    """With two replicas, it and worker 0. That one is not warned of numbers which are the same; worker 1, which a
    program counted beside the chief, is told who gets tokens."""
    monkeypatch.setattr(sync_agreement, "_STALE_S", 0.3)
    at = servers(ps=2, chief=1, worker=2)
    made = {"chief": build(0, 2, sgd, job="chief"), "worker": build(rank, 2, sgd)}

    def session(job: str, rank: int) -> Any:
        with made[job]["graph"].as_default():
            hooks = [made[job]["optimizer"].make_session_run_hook(job == "chief", num_tokens=0)]
            target = at[f"{job}{rank}"].target
            return tf.train.MonitoredTrainingSession(target, job == "chief", hooks=hooks, max_wait_secs=30)

    chief = session("chief", 0)
    if rank == 0:
        session("worker", 0).close()
        assert not any("SyncReplicas" in text for text in caplog.messages)
    else:
        told = "total_num_replicas=2, the chief gives tokens to the chief and tasks 0 to 0; this replica is task 1"
        with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(told) + ".*wait for a token for ever"):
            session("worker", 1)
    chief.close()
