"""What the leader of a job's collectives answers to those who ask to be in a group."""

from __future__ import annotations

import time
from typing import Any

from sparkflow_runtime.resources.groups import Leader
from sparkflow_runtime.resources.missing import Missing


def test_a_group_forms_when_all_have_asked() -> None:
    leader = Leader()
    assert not leader.join(1, 2, "a", 10).members and leader.joined(1) == ["a"]
    formed = leader.join(1, 2, "b", 20)
    assert set(formed.members) == {"a", "b"} and formed.nonces == {"a": 10, "b": 20} and formed.generation


def test_who_asks_again_leaves_the_group() -> None:
    leader = Leader()
    leader.join(1, 2, "a", 10)
    old = leader.join(1, 2, "b", 20).generation
    again = leader.join(1, 2, "a", 11)
    assert again.abort == ["b"] and again.old == old and not again.members
    new = leader.join(1, 2, "b", 21)
    assert new.generation not in (0, old) and new.nonces == {"a": 11, "b": 21}


def test_refusals() -> None:
    leader = Leader()
    leader.join(1, 2, "a", 10)
    assert "group_size 3 of b, and a says 2" in leader.join(1, 3, "b", 20).refused
    leader.join(1, 2, "b", 21)
    assert "c is not in this group" in leader.join(1, 2, "c", 30).refused
    assert not leader.join(2, 1, "c", 30).refused, "another key is another group"


def test_who_gives_up_or_is_lost_is_no_longer_counted() -> None:
    leader = Leader()
    leader.join(1, 3, "a", 10)
    leader.join(1, 3, "b", 20)
    leader.forget(1, "a", 0, 9)
    assert leader.joined(1) == ["a", "b"], "a wish made since then stands"
    leader.forget(1, "a", 0, 10)
    leader.lost("b")
    assert leader.joined(1) == []
    for task in "abc":
        formed = leader.join(1, 3, task, 40)
    leader.forget(1, "a", formed.generation + 2, None)
    assert len(leader.joined(1)) == 3
    leader.lost("c")
    assert leader.joined(1) == [], "the others ask anew"


def test_who_no_longer_waits_is_not_said_to_be_missing() -> None:
    leader = Leader()
    leader.join(1, 3, "a", 10)
    leader.join(1, 3, "b", 20)
    leader.forget(1, "a", 0, 10)
    assert sorted(leader.joined(1)) == ["a", "b"], "it asked, and its deadline came first"
    assert not leader.join(1, 3, "c", 30).members, "nor is it counted"
    assert leader.join(1, 3, "a", 11).members
    leader.lost("a")
    assert leader.joined(1) == []


def test_a_group_that_nobody_else_may_join_is_not_looked_at_without_a_pause() -> None:
    """Or the thread of the rings would turn round and round until the group is given up."""
    leader, found = Leader(), list[Any]()
    leader.join(7, 2, "a", 1)
    missing = Missing(leader, lambda *_: ["a"], lambda *a: found.append(a), found.append, found.append)
    now = time.monotonic()
    for _ in range(3):
        missing.look(now)
        (at,) = missing.next_at()
        assert at > now
        now = at
    assert not found
