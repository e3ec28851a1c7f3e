"""Rings without network: members whose messages a test passes on, in any order that keeps each link's."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.resources import rings
from sparkflow_runtime.resources.rings import Broadcast, Chunk, Gather, Place, Reduce, Ring, Send
from sparkflow_runtime.resources.small_reductions import SmallReduce, reduction
from sparkflow_runtime.wire.errors import InvalidArgumentError

Make = Callable[[Place, Send], Ring]


def run(make: Make, size: int, seed: int = 0) -> list[Any]:
    """Each member's result. The links deliver in an order of `seed`; arrays are copied, as a network would."""
    links: list[deque[tuple[Chunk, np.ndarray]]] = [deque() for _ in range(size)]

    def sender(rank: int) -> Send:
        return lambda chunk, data: links[(rank + 1) % size].append((chunk, np.array(data)))

    members = [make(Place(rank, size), sender(rank)) for rank in range(size)]
    rng = random.Random(seed)
    for rank in rng.sample(range(size), size):
        members[rank].begin()
    while any(links):
        rank = rng.choice([r for r in range(size) if links[r]])
        assert not members[rank].done, "a member that is done can be forgotten"
        members[rank].receive(*links[rank].popleft())
    assert all(m.done for m in members)
    return [m.result for m in members]


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rings, "CHUNK_BYTES", 40)


by_either_way = pytest.mark.parametrize("way", [Reduce, SmallReduce])


@by_either_way
@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (7,), (4, 33)])
def test_all_reduce(size: int, shape: tuple[int, ...], way: Any) -> None:
    inputs = np.random.default_rng(0).normal(size=(size, *shape)).astype(np.float32)
    results = run(lambda place, send: way(place, send, inputs[place.rank]), size)
    assert all(r.shape == shape and r.dtype == np.float32 for r in results)
    assert all(r.tobytes() == results[0].tobytes() for r in results)
    np.testing.assert_allclose(results[0], inputs.sum(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("make", [Reduce, Gather, Broadcast])
def test_a_large_result_lies_where_an_earlier_one_was(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """And nowhere else while that one lives."""
    monkeypatch.setattr(rings, "_MAPPED_BYTES", 1 << 20)
    monkeypatch.setattr(rings, "CHUNK_BYTES", 1 << 20)
    x = np.arange(3 << 19, dtype=np.float32)

    def result() -> Any:
        return run(lambda place, send: make(place, send, x), 1)[0]

    first, second = result(), result()
    assert not np.shares_memory(first, second) and np.array_equal(first.reshape(-1), x)
    second[:] = 0
    places = {a.__array_interface__["data"][0] for a in (first, second)}
    del first, second
    third, fourth = result(), result()
    assert {a.__array_interface__["data"][0] for a in (third, fourth)} == places
    assert np.array_equal(third.reshape(-1), x) and np.array_equal(fourth.reshape(-1), x)


@by_either_way
def test_the_same_bits_in_any_order_of_arrival(way: Any) -> None:
    inputs = np.random.default_rng(1).normal(size=(4, 1000)).astype(np.float32)
    first = run(lambda place, send: way(place, send, inputs[place.rank]), 4)[0]
    for seed in range(1, 10):
        again = run(lambda place, send: way(place, send, inputs[place.rank]), 4, seed)
        assert all(a.tobytes() == first.tobytes() for a in again)


@by_either_way
@pytest.mark.parametrize("merge, want", [("Add", 6), ("Mul", 6), ("Min", 1), ("Max", 3)])
@pytest.mark.parametrize("dtype", ["int32", "int64", "float16", "float64", "complex128"])
def test_merge_ops(merge: str, want: int, dtype: str, way: Any) -> None:
    results = run(lambda place, send: way(place, send, np.full(20, place.rank + 1, dtype), merge), 3)
    assert all((r == want).all() and r.dtype == dtype for r in results)


@by_either_way
def test_the_input_stays_as_it_is_and_the_mean_divides(way: Any) -> None:
    inputs = [np.arange(50.0) * (i + 1) for i in range(3)]
    before = [x.copy() for x in inputs]
    results = run(lambda place, send: way(place, send, inputs[place.rank], "Add", "Div"), 3)
    assert np.allclose(results[2], np.arange(50.0) * 2)
    assert all((a == b).all() for a, b in zip(inputs, before, strict=True))
    whole = run(lambda place, send: way(place, send, np.full(3, 3 + place.rank), "Add", "Div"), 2)
    assert whole[0].tolist() == [3, 3, 3]
    below = run(lambda place, send: way(place, send, np.array([-7, 2**61 + 1]) * place.rank, "Add", "Div"), 2)
    assert below[1].tolist() == [-3, 2**60]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_reduce_scatter(size: int) -> None:
    inputs = np.random.default_rng(2).normal(size=(size, 12, 5))
    results = run(lambda place, send: Reduce(place, send, inputs[place.rank], scatter=True), size)
    np.testing.assert_allclose(np.concatenate(results), inputs.sum(0))
    assert all(r.shape == (12 // size, 5) for r in results)


@pytest.mark.parametrize("rows", [(3, 3, 3), (1, 0, 4), (0, 0, 0), (200, 1, 50), (7,)])
@pytest.mark.parametrize("inner", [(), (2,), (3, 2), (0, 3)])
def test_all_gather(rows: tuple[int, ...], inner: tuple[int, ...]) -> None:
    inputs = [np.random.default_rng(i).normal(size=(n, *inner)) for i, n in enumerate(rows)]
    for result in run(lambda place, send: Gather(place, send, inputs[place.rank]), len(rows), 3):
        np.testing.assert_array_equal(result, np.concatenate(inputs))


@pytest.mark.parametrize("source", [0, 1, 3])
def test_broadcast(source: int) -> None:
    x = np.arange(100).reshape(10, 10)

    def make(place: Place, send: Send) -> Ring:
        return Broadcast(place, send, x if place.rank == source else None, (10, 10), np.int64)

    assert all((r == x).all() for r in run(make, 4, source))


@by_either_way
def test_a_codec_gives_everybody_the_same_bits(way: Any) -> None:
    inputs = np.random.default_rng(3).normal(size=(3, 200)).astype(np.float32)
    codec = (lambda x: x.astype(np.float16), lambda x: x.astype(np.float32))
    results = run(lambda place, send: way(place, send, inputs[place.rank], codec=codec), 3)
    assert all(r.tobytes() == results[0].tobytes() and r.dtype == np.float32 for r in results)
    np.testing.assert_allclose(results[0], inputs.sum(0), rtol=1e-2, atol=1e-2)
    gathered = run(lambda place, send: Gather(place, send, inputs[place.rank], codec), 3)
    assert all(r.tobytes() == gathered[0].tobytes() for r in gathered)


@pytest.mark.parametrize(
    "make, said",
    [
        (lambda p, s: Reduce(p, s, np.zeros(5 + p.rank)), "differ in size"),
        (lambda p, s: Reduce(p, s, np.zeros(5, [np.float32, np.int32][p.rank])), "differ in dtype"),
        (lambda p, s: Reduce(p, s, np.zeros(5), "Sub"), "merge_op 'Sub'"),
        (lambda p, s: SmallReduce(p, s, np.zeros(5 + p.rank)), "differ in size"),
        (lambda p, s: SmallReduce(p, s, np.zeros(5, [np.float32, np.int32][p.rank])), "differ in dtype"),
        (lambda p, s: SmallReduce(p, s, np.zeros(5), "Sub"), "merge_op 'Sub'"),
        (lambda p, s: Reduce(p, s, np.zeros(5), scatter=True), "first axis"),
        (lambda p, s: Gather(p, s, np.zeros(())), "scalars"),
        (lambda p, s: Gather(p, s, np.zeros((2, 2 + p.rank))), "no rows"),
        (lambda p, s: Broadcast(p, s, np.zeros(3) if p.rank else None, (4,), np.float64), "waits for shape"),
    ],
)
def test_members_that_do_not_agree(make: Make, said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=said):
        run(make, 2)


def test_few_chunks_are_under_way() -> None:
    sent: list[Chunk] = []
    member = Reduce(Place(0, 2), lambda chunk, data: sent.append(chunk), np.zeros(1000))
    member.begin()
    assert len(sent) == rings.WINDOW


def test_what_is_small_goes_round_as_it_is() -> None:
    """In half the hops, and whole; what is not, and what is scattered, is cut."""
    cases = (16, 2, True), (16, 9, True), (1 << 18, 2, True), (1 << 19, 2, False), (1 << 16, 4, False)
    for count, size, small in cases:
        sent: list[tuple[int, int]] = []
        place, x = Place(0, size), np.zeros(count, np.float32)
        member = reduction(place, lambda chunk, data, sent=sent: sent.append((chunk.phase, len(data))), x)  # type: ignore[misc]
        member.begin()
        assert (sent == [(rings.GATHER, count)]) is small
    assert isinstance(reduction(Place(0, 2), lambda chunk, data: None, np.zeros(2), scatter=True), Reduce)
    assert isinstance(reduction(Place(0, 1), lambda chunk, data: None, np.zeros(2)), Reduce)


def test_a_tensor_that_comes_twice() -> None:
    member = SmallReduce(Place(0, 3), lambda chunk, data: None, np.zeros(3))
    member.begin()
    member.receive(Chunk(rings.GATHER, 1, 0, 3), np.zeros(3))
    with pytest.raises(InvalidArgumentError, match="twice"):
        member.receive(Chunk(rings.GATHER, 1, 0, 3), np.zeros(3))
    with pytest.raises(InvalidArgumentError, match="differ in size"):
        member.receive(Chunk(rings.GATHER, 7, 0, 3), np.zeros(3))


def test_two_sources() -> None:
    member = Broadcast(Place(0, 2), lambda chunk, data: None, np.zeros(3))
    with pytest.raises(InvalidArgumentError, match="both broadcast"):
        member.receive(Chunk(rings.GATHER, 1, 0, 3), np.zeros(3))
