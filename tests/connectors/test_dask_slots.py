"""Dask, as far as no cluster is needed: who may use which threads, which workers are lost, which rows a role has."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import dask.dataframe as dd
import pandas as pd
import pytest

from sparkflow_connectors import dask, dask_partitions, dask_slots, dask_threads, launch
from sparkflow_connectors.dask_slots import Claims, Liveness, Request, Slots, spread
from sparkflow_runtime.wire.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError

TWO = {"a": 1, "b": 1}
BOTH = {"client-x", "client-y"}


def _request(token: str, workers: int = 2, run_id: str = "run") -> Request:
    return Request(token, run_id, f"client-{token}", f"training {token}", workers)


def test_every_worker_is_used_once_before_any_a_second_time() -> None:
    assert spread({"b": 2, "a": 3}, {}) == ["a", "b", "a", "b", "a"]
    assert spread({"b": 2, "a": 3}, {"a": 2, "b": 2}) == ["a"]


def test_a_claim_is_all_or_nothing_and_names_who_is_in_the_way() -> None:
    claims = Claims()
    assert claims.ask(_request("x"), TWO, BOTH, 0.0).addresses == ["a", "b"]
    answer = claims.ask(_request("y"), TWO, BOTH, 0.0)
    assert (answer.addresses, answer.held_by, answer.total) == ([], ["training x"], 2)
    claims.release("x", "run")
    assert claims.ask(_request("y"), TWO, BOTH, 1.0).addresses == ["a", "b"]


def test_trainings_that_fit_run_beside_each_other() -> None:
    claims = Claims()
    four = {"a": 2, "b": 1, "c": 1}
    first, second = (claims.ask(_request(token), four, BOTH, 0.0) for token in "xy")
    assert (first.addresses, second.addresses) == (["a", "b"], ["c", "a"])
    assert second.usable == ["a", "c"], "b has no thread left that would compute a table"


def test_a_claim_ends_with_its_client() -> None:
    claims = Claims()
    claims.ask(_request("x"), TWO, BOTH, 0.0)
    assert claims.ask(_request("y"), TWO, {"client-y"}, 0.0).addresses == ["a", "b"]


def test_the_first_to_ask_is_the_first_to_get() -> None:
    """A training that needs many threads is not overtaken for ever by those that need few."""
    claims, everyone = Claims(), {*BOTH, "client-z"}
    claims.ask(_request("x", 1), TWO, everyone, 0.0)
    assert claims.ask(_request("y", 2), TWO, everyone, 0.0).held_by == ["training x"]
    assert claims.ask(_request("z", 1), TWO, everyone, 0.0).held_by == ["training x", "training y"]
    assert claims.ask(_request("z", 1), TWO, everyone, 60.0).addresses == ["b"], "y asks no more"


def test_an_attempt_takes_its_forerunners_place_and_a_late_release_takes_nothing() -> None:
    claims = Claims()
    claims.ask(_request("x", 2, "run 1"), TWO, BOTH, 0.0)
    assert claims.ask(_request("x", 2, "run 2"), {"a": 1, "c": 1}, BOTH, 0.0).addresses == ["a", "c"]
    claims.release("x", "run 1")
    assert not claims.ask(_request("y", 2), {"a": 1, "c": 1}, BOTH, 0.0).addresses


class Scheduler:
    """What of a scheduler a claim reads, and the client that reaches it."""

    def __init__(self, **workers: Any):
        self.extensions: dict[str, Any] = {}
        self.clients = {"client-1": None}
        self.workers = workers
        self.id = "client-1"

    def run_on_scheduler(self, function: Any, *args: Any) -> Any:
        return function(*args, dask_scheduler=self)


def _worker(status: str = "running", silent_s: float = 0.0) -> SimpleNamespace:
    return SimpleNamespace(
        nthreads=1, status=SimpleNamespace(name=status), last_seen=dask_slots.cluster_time() - silent_s
    )


def test_paused_and_silent_workers_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_slots, "RETURN_TIMEOUT_S", 0.05)
    monkeypatch.setattr(dask_slots, "_ASK_EVERY_S", 0.01)
    scheduler: Any = Scheduler(a=_worker(), b=_worker("paused"), c=_worker(silent_s=99.0))
    with pytest.raises(FailedPreconditionError, match=r"2 workers need 2 task slots at once, and .* had 1 worker th"):
        Slots(scheduler).take("run", 2, "a training", 30.0)
    answer = Slots(scheduler).take("run", 1, "a training", 30.0)
    assert (answer.addresses, answer.usable) == (["a"], ["a"])


def test_the_end_of_patience_is_final_and_names_the_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_slots, "CLAIM_TIMEOUT_S", 0.05)
    monkeypatch.setattr(dask_slots, "_ASK_EVERY_S", 0.01)
    scheduler: Any = Scheduler(a=_worker())
    first = Slots(scheduler)
    assert first.take("run 1", 1, "the training into /first", 30.0).usable == [], "any worker"
    second = Slots(scheduler)
    with pytest.raises(FailedPreconditionError, match=r"the training into /first \(process \d+ on ") as raised:
        second.take("run 2", 1, "another", 30.0)
    assert launch._is_final(raised.value)
    first.release("run 1")
    assert second.take("run 2", 1, "another", 30.0).addresses == ["a"]


def _seen(**last_seen: float) -> Mapping[str, Mapping[str, Any]]:
    return {address: {"last_seen": at} for address, at in last_seen.items()}


def test_one_look_without_a_worker_is_not_believed() -> None:
    liveness = Liveness(["a", "b"], 30.0)
    assert liveness.look({}, 0.0) == {}
    assert liveness.look(_seen(a=1.0, b=1.0), 1.0) == {}
    assert liveness.look(_seen(a=2.0), 2.0) == {}
    assert liveness.look(_seen(a=3.0), 3.0) == {"b": "is gone"}


def test_a_silent_worker_is_lost_and_one_that_speaks_again_is_not() -> None:
    liveness = Liveness(["a"], 30.0)
    assert liveness.look(_seen(a=5000.0), 0.0) == {}, "the scheduler's clock is another"
    assert liveness.look(_seen(a=5000.0), 31.0) == {}
    assert liveness.look(_seen(a=5001.0), 32.0) == {}
    assert liveness.look(_seen(a=5001.0), 63.0) == {}
    assert liveness.look(_seen(a=5001.0), 64.0) == {"a": "has been silent for 32 s: it is stopped or cut off"}


class Future:
    key = "a key"

    def __init__(self, status: str):
        self.status = status

    def done(self) -> bool:
        return self.status != "pending"

    def exception(self) -> Exception:
        return ZeroDivisionError("of the user's")


def _run(lost: dict[int, str], *statuses: str) -> dask.DaskRun:
    run = dask.DaskRun.__new__(dask.DaskRun)
    run._futures = [Future(status) for status in statuses]  # type: ignore[misc]
    run._watch = SimpleNamespace(lost=lambda: lost)  # type: ignore[assignment]
    run._client = SimpleNamespace(status="running", scheduler="there")
    return run


def test_a_run_has_ended_when_nothing_more_will_be_heard() -> None:
    gone = "The Dask worker of worker 1 is gone"
    assert _run({}, "finished", "finished").ended()
    assert not _run({}, "finished", "pending").ended()
    assert _run({1: gone}, "finished", "finished").ended(), "it was done before"
    assert _run({1: gone}, "finished", "pending").ended(), "no role ends well before all have told their results"
    assert not _run({1: gone}, "finished", "pending", "pending").ended()
    with pytest.raises(UnavailableError, match=gone):
        _run({1: gone}, "pending", "pending").ended()
    with pytest.raises(UnavailableError, match=r"Dask gave up a key \(lost\)"):
        _run({}, "lost", "pending").ended()
    closed = _run({}, "cancelled", "finished")
    closed._client.status = "closed"
    with pytest.raises(FailedPreconditionError, match="The Dask client is closed"):
        closed.ended()


class Computing:
    """A client whose table is in a given state."""

    def __init__(self, *statuses: str):
        self.futures = [Future(status) for status in statuses]

    def compute(self, parts: list[Any], workers: Any, allow_other_workers: bool) -> list[Future]:
        return self.futures


def _compute(lost: dict[int, str], *statuses: str) -> Any:
    client: Any = Computing(*statuses)
    ddf = dd.from_pandas(pd.DataFrame({"x": [1.0]}), npartitions=1)
    return dask_partitions.computed(client, ddf, [], lambda: lost)


def test_a_table_is_waited_for_while_it_can_still_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_partitions, "_STALLED_S", 0.1)
    assert len(_compute({}, "finished", "finished")) == 2
    with pytest.raises(ZeroDivisionError, match="of the user's") as raised:
        _compute({}, "pending", "error")
    assert raised.value.__notes__ == ["(in partition 1 of the table)"]
    with pytest.raises(UnavailableError, match="is gone"):
        _compute({0: "The Dask worker of worker 0 is gone"}, "pending", "finished")
    with pytest.raises(UnavailableError, match=r"computed 1 of the table's 2 partitions and then none in 0.1 s"):
        _compute({}, "pending", "finished")


def _frames(**columns: Any) -> list[pd.DataFrame]:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "y": [0.0, 1.0, 0.0, 1.0], **columns})
    return [frame[:2].astype({"x": "float32"}), frame[2:].astype({"x": "float32"})]


def _own(frames: list[pd.DataFrame], rank: int) -> list[pd.DataFrame]:
    given = [dask_partitions.Frame(frame) for frame in frames]
    return [part.pandas for _, part in dask_partitions._owned([0, 1], given, 2, rank, "k", "t")]


def test_a_role_has_the_rows_of_its_rank_in_order() -> None:
    own = _own(_frames(k=[1, 0, 3, 5], t=[9, 8, 7, 1]), 1)
    assert dask._ordered(own, "t")["x"].tolist() == [4.0, 3.0, 1.0]


@pytest.mark.parametrize(
    "holed", [pd.array([1, 2, None, None], dtype="Int64"), [1.0, 2.0, None, float("nan")]], ids=["Int64", "float64"]
)
def test_nulls_that_say_whose_a_row_is_are_refused(holed: Any) -> None:
    for what, columns in (("partition_by", {"k": holed, "t": 1}), ("order_by", {"k": 1, "t": holed})):
        where = rf"^Partition 1 of the table: {what}: column '[kt]' is null at row 0 \(2 nulls\)"
        with pytest.raises(InvalidArgumentError, match=where):
            _own(_frames(**columns), 0)
    with pytest.raises(InvalidArgumentError, match=r"^Partition 0 of the table: Column 't' is missing"):
        _own(_frames(k=1), 0)


def test_a_missing_order_column_is_refused_before_anything_starts() -> None:
    ddf = dd.from_pandas(pd.DataFrame({"x": [1.0], "y": [1.0]}), npartitions=1)
    with pytest.raises(InvalidArgumentError, match=r"^order_by: column 'when' is missing; the table has x, y$"):
        dask.train(ddf, lambda features, labels, mode: None, label="y", checkpoint_dir="/nowhere", order_by="when")


def _check(
    monkeypatch: pytest.MonkeyPatch, threads: list[list[int]], were_there: bool = False, **of_cluster: Any
) -> int:
    """The looks that a check takes for 2 workers. threads: of the Dask workers, look by look; the last stays."""
    cluster = SimpleNamespace(**of_cluster) if of_cluster else None
    client: Any = SimpleNamespace(scheduler=None, cluster=cluster)
    left, looks = list(threads), list[int]()

    def workers_now(client: Any) -> dict[str, Any]:
        looks.append(1)
        there = left.pop(0) if len(left) > 1 else left[0]
        return {f"tcp://{n}": {"nthreads": count} for n, count in enumerate(there)}

    monkeypatch.setattr(dask_threads, "workers_now", workers_now)
    monkeypatch.setattr(dask_threads, "_ASK_EVERY_S", 0.0)
    dask_threads.await_threads(client, 2, were_there)
    return len(looks)


CLOSED = {n: SimpleNamespace(status=SimpleNamespace(name="closed")) for n in range(2)}
RUNS = {0: SimpleNamespace(status=SimpleNamespace(name="running"))}


def test_a_cluster_without_workers_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a LocalCluster whose notebook was interrupted, "use fewer workers" is no advice."""
    with pytest.raises(InvalidArgumentError, match=r"has no worker now.*make a new cluster and Client"):
        _check(monkeypatch, [[]], plan={0, 1}, workers=CLOSED)
    with pytest.raises(InvalidArgumentError, match=r"has 1 worker threads\. Use fewer workers"):
        _check(monkeypatch, [[1]], plan={0}, workers=RUNS)
    with pytest.raises(InvalidArgumentError, match=r"has 1 worker threads\. With adaptive.*adapt\(maximum="):
        _check(monkeypatch, [[1]], plan={0}, workers=RUNS, _adaptive=1)


def test_workers_that_the_cluster_has_given_up_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in its plan as ever; while it scales up, its own are not there for an instant either."""
    monkeypatch.setattr(dask_threads, "_UNMADE_S", 0.05)
    with pytest.raises(InvalidArgumentError, match=r"has no worker now.*make a new cluster and Client"):
        _check(monkeypatch, [[]], plan={0, 1}, workers={})
    with pytest.raises(InvalidArgumentError, match=r"has 1 worker threads\. Use fewer workers"):
        _check(monkeypatch, [[1]], plan={0, 1}, workers=RUNS)
    with pytest.raises(InvalidArgumentError, match=r"has no worker now"):
        _check(monkeypatch, [[]], were_there=True, plan={0, 1}, workers=CLOSED)
    monkeypatch.setattr(dask_threads, "_UNMADE_S", 60.0)
    assert _check(monkeypatch, [[], [1], [1, 1]], plan={0, 1}, workers={}) == 3
    assert _check(monkeypatch, [[], [1, 1]], were_there=True, plan={0, 1}, workers=CLOSED) == 2, "others may come"
    monkeypatch.setattr(dask_threads, "UNASKED_TIMEOUT_S", 0.0)
    assert _check(monkeypatch, [[], [1], [1, 1]], were_there=True) == 3, "as long as for lost ones"


def test_workers_that_the_cluster_was_asked_for_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cluster.scale(2)`, or a cluster made a moment before; by an address, nobody knows of what it was asked for."""
    assert _check(monkeypatch, [[], [1], [1, 1]], plan={0, 1}, workers=RUNS) == 3
    assert _check(monkeypatch, [[], [2]]) == 2
    monkeypatch.setattr(dask_threads, "RETURN_TIMEOUT_S", 0.0)
    monkeypatch.setattr(dask_threads, "UNASKED_TIMEOUT_S", 0.0)
    with pytest.raises(FailedPreconditionError, match=r"for 0 s the Dask cluster has had 1 worker threads"):
        _check(monkeypatch, [[1]], plan={0, 1}, workers=RUNS)
    with pytest.raises(FailedPreconditionError, match=r"for 0 s the Dask cluster has had no worker"):
        _check(monkeypatch, [[]])


def test_workers_that_adaptive_scaling_always_leaves_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """`cluster.adapt(minimum=2)` a moment before, which asks for them within a second; by then none is in its plan."""
    monkeypatch.setattr(dask_threads, "_UNMADE_S", 0.0)
    adapted = SimpleNamespace(minimum=2, state="running")
    assert _check(monkeypatch, [[], [1], [1, 1]], plan=set(), workers={}, _adaptive=adapted) == 3
    adapted.state = "stopped"
    with pytest.raises(InvalidArgumentError, match=r"has no worker now\. .*make a new cluster"):
        _check(monkeypatch, [[], [1, 1]], plan=set(), workers={}, _adaptive=adapted)


def test_adaptive_scaling_is_asked_for_what_a_training_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until the training is over, and for no more than its maximum."""
    there = dict[str, Any]()
    monkeypatch.setattr(dask_threads, "workers_now", lambda client: there)
    scaling = SimpleNamespace(minimum=0, maximum=3, state="running")
    client: Any = SimpleNamespace(cluster=SimpleNamespace(_adaptive=scaling, new_spec={"options": {"nthreads": 2}}))
    for workers, minimum in ((1, 1), (4, 2), (5, 3), (6, 3), (7, 0)):
        with dask_threads.adapted(client, workers):
            assert scaling.minimum == minimum
        assert scaling.minimum == 0
    there["tcp://0"] = {"nthreads": 4}
    with pytest.raises(KeyError), dask_threads.adapted(client, 8):
        assert scaling.minimum == 2
        raise KeyError
    assert scaling.minimum == 0
    scaling.state = "stopped"
    with dask_threads.adapted(client, 4), dask_threads.adapted(SimpleNamespace(cluster=None), 4):  # type: ignore[arg-type]
        assert scaling.minimum == 0
