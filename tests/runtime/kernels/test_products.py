"""Products in blocks: numpy's own values, the same bits with any number of threads, and BLAS as it was afterwards."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import sparkflow as tf
from sparkflow_runtime.kernels import conv_columns, few_rows, math, parallel, stacked_products
from sparkflow_runtime.kernels.crew import Crew

SHAPES = [(512, 300, 200), (128, 784, 512), (100, 400, 700), (3, 2000, 3000), (700, 4000, 3), (40, 40, 40)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_bits(shape: tuple[int, int, int], dtype: Any) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(n, k)).astype(dtype).T
    found = parallel.product(a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-4 if dtype == np.float32 else 1e-12, atol=1e-3)
    with threadpool_limits(1):
        alone = [parallel.product(a, b) for _ in range(3)]  # from the second on as a whole, where that has these bits
    assert {x.tobytes() for x in alone} == {found.tobytes()} and found.dtype == dtype


@pytest.mark.parametrize("batch", [(), (3,)])
def test_half_precision_is_summed_in_single(batch: tuple[int, ...]) -> None:
    """By BLAS, and each sum rounded once: 4,096 ones and a 0.25 would stay 2,048 in float16's own sums."""
    ones = np.ones((*batch, 40, 4097), np.float16)
    ones[..., -1] = 0.25
    found = math.product(np, ones, np.ones((*batch, 4097, 50), np.float16))
    assert found.dtype == np.float16 and (found == np.float16(4096.25)).all()


@pytest.mark.parametrize("m", [64, 100, 429, 512, 784, 1000, 4096])
def test_blocks_of_rows_are_whole_tiles(m: int) -> None:
    """Two of nearly one size below 512 rows, then four: a block more, or one of half the size, would leave one of two
    threads waiting."""
    length, blocks = parallel._length(m, 10), 2 if m < 512 else 4
    assert length % 12 == 0 and -(-m // length) == blocks and m - (blocks - 1) * length > length - 12 * blocks


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m, n", [(512, 128), (0, 5), (3, 0), (1, 1)])
def test_a_column_by_a_row(m: int, n: int, dtype: Any) -> None:
    a, b = np.arange(m, dtype=dtype)[None].T - 2, np.arange(n, dtype=dtype)[:, None].T / 3
    found = parallel.product(a, b)
    assert found.flags.c_contiguous and found.dtype == dtype
    assert np.array_equal(found, np.matmul(a, b))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows, transposed", [(2, False), (4, False), (3, True), (8, True)])
def test_few_rows(rows: int, transposed: bool, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    b = rng.normal(size=(1100, 1000)).astype(dtype)
    b = b.T if transposed else b
    a = rng.normal(size=(b.shape[0], rows)).astype(dtype).T
    assert few_rows.fits(a, b) and not few_rows.fits(a[:1], b) and not few_rows.fits(a, b[:, ::2])
    found = few_rows.product(a, b)
    np.testing.assert_allclose(found, a @ b, rtol=1e-3 if dtype == np.float32 else 1e-10, atol=1e-4)
    with threadpool_limits(1):
        assert found.tobytes() == few_rows.product(a, b).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.dtype("S3"), object])
def test_a_copy_of_its_own(dtype: Any) -> None:
    row = np.arange(1000).astype(dtype)
    for value in (row[3], row, row[::-2], np.broadcast_to(row, (700, 1000)), np.broadcast_to(row[1], (3, 400_000))):
        found = parallel.copied(value, dtype)
        assert np.array_equal(found, value) and found.flags.c_contiguous and found.base is None
        assert found.dtype == dtype and not np.may_share_memory(found, row)


@pytest.mark.parametrize(("whole", "multiplies", "asked"), [(2, False, 1), (2, True, 0), (0, False, 0)])
def test_new_memory_is_filled_by_processors_left_to_others(
    whole: int, multiplies: bool, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """asked: how often another thread is, where a server left BLAS one of `whole` threads."""
    submitted, pool = [], parallel._pool()

    class Pool:
        def submit(self, work: Any) -> Any:
            submitted.append(work)
            return pool.submit(work)

    monkeypatch.setattr(parallel, "_most", lambda: 2)
    monkeypatch.setattr(parallel, "_pool", Pool)
    monkeypatch.setattr(parallel._blas, "whole", 0)
    parallel.leave_to_others(whole)
    done: list[int] = []
    with threadpool_limits(1):
        parallel.share(done.extend, list(range(64)), multiplies)
    assert sorted(done) == list(range(64)) and len(submitted) == asked


def _threads() -> list[int]:
    return [library.get_num_threads() for library in parallel._blas.libraries()]  # scipy's may come later


def test_a_step_that_multiplies_leaves_blas_as_it_was(graph: Any) -> None:
    before, seen = _threads(), []
    x = tf.placeholder(tf.float32, [None, 4])
    product = tf.matmul(x, tf.ones([4, 4]))
    with tf.Session() as session:
        session.run(product, {x: np.ones((2, 4))})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(
                tf.matmul(x, tf.placeholder_with_default(np.ones((3, 4), "f"), [None, 4])), {x: np.ones((2, 4))}
            )
    with parallel.blas_alone() as had:
        seen = _threads()
    assert _threads() == before and had == max(before) and set(seen) == {1}


def test_any_thread_may_have_blas_alone() -> None:
    """One after the other, or the first to come leaves it to another to set it back."""
    from threadpoolctl import threadpool_info

    def told() -> set[int]:
        return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}

    with threadpool_limits(3), ThreadPoolExecutor(1) as other:
        blas, here, there = parallel._Blas(), parallel.Alone(), parallel.Alone()
        for one, two in ((other.submit, _at_once), (_at_once, other.submit), (other.submit, other.submit)):
            assert one(blas.enter, here).result(20) == 3 and told() == {1}
            assert two(blas.enter, there).result(20) == 3
            one(blas.leave, here).result(20)
            assert told() == {1}
            two(blas.leave, there).result(20)
            assert told() == {3}


def _at_once(function: Any, *given: Any) -> Any:
    found: Future[Any] = Future()
    found.set_result(function(*given))
    return found


@pytest.mark.parametrize("rank", [2, 3])
def test_blas_is_alone_in_a_step_of_convolutions(graph: Any, monkeypatch: pytest.MonkeyPatch, rank: int) -> None:
    """Its own threads would wait by spinning beside those that share out the blocks, before and after each of them."""
    users: list[int] = []
    monkeypatch.setattr(
        conv_columns, "scratch", lambda *args: users.append(len(parallel._blas.users)) or scratch(*args)
    )
    scratch = parallel.scratch
    x, w = tf.Variable(tf.ones([1, *[4] * rank, 2])), tf.Variable(tf.ones([*[2] * rank, 2, 3]))
    y = (tf.nn.conv2d if rank == 2 else tf.nn.conv3d)(x, w, [1] * (rank + 2), "SAME")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in [y, *tf.gradients(y, [x, w], tf.stop_gradient(tf.ones_like(y)))]:
            session.run(step)
    assert len(users) >= 3 and min(users) > 0


def test_input_gradient_of_single_cells_is_one_product(graph: Any) -> None:
    x, w = np.ones((2, 5, 5, 3), np.float32), np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
    given = np.random.default_rng(0).random((2, 5, 5, 4), np.float32)
    with tf.Session() as session:
        found = session.run(tf.nn.conv2d_backprop_input(x.shape, w, given, [1, 1, 1, 1], "SAME"))
    np.testing.assert_allclose(found, given @ w[0, 0].T, rtol=1e-6)


@pytest.mark.parametrize("batch", [(40,), (4, 10), (1, 40), (40, 1), (300, 1, 2)])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("threads", ["crew", "of Python"])
def test_stacks_have_the_bits_of_one_call(
    batch: tuple[int, ...], turned: bool, threads: str, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "crew_for", lambda work: crew if threads == "crew" else None)
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=(*batch, *s)).astype(np.float32) for s in ((70, 64), (64, 80)))
    if turned:
        a = np.ascontiguousarray(a.swapaxes(-1, -2)).swapaxes(-1, -2)
    with parallel.blas_alone():
        assert stacked_products.products(a, b).tobytes() == np.matmul(a, b).tobytes()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stacks_of_heads(crew: Crew, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Views of which the axes of the stack do not lie one within the other, and runs that do not come out even."""
    monkeypatch.setattr(parallel, "crew_for", lambda work: crew)
    rng = np.random.default_rng(0)
    q, k = (rng.normal(size=(3, 20, 5, 32)).astype(dtype).transpose(0, 2, 1, 3) for _ in range(2))
    k = k.swapaxes(-1, -2)
    assert stacked_products._merged((3, 5), [q.strides[:2], k.strides[:2], (2000, 400)])[0] == [3, 5]
    with parallel.blas_alone():
        found = stacked_products.products(q, k)
        assert found.tobytes() == np.matmul(q, k).tobytes()
        assert stacked_products.products(found[::2], q[::-2]).tobytes() == np.matmul(found[::2], q[::-2]).tobytes()


def test_a_stack_by_one_matrix_is_one_product() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 30, 70)), rng.normal(size=(70, 20))
    found = stacked_products.products(a, b)
    assert found.shape == (4, 30, 20) and found.tobytes() == parallel.product(a.reshape(120, 70), b).tobytes()
    empty = np.empty((2, 0, 70))
    assert stacked_products.products(empty, b).shape == (2, 0, 20)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_products_have_the_bits_of_matmul(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(300):
        m, k, n = rng.integers(1, 40, 3)
        a, b = rng.standard_normal((2, 40, 40)).astype(dtype)
        a, b = a[:m, :k], b[:k, :n]
        for one, other in ((a, b), (a.copy(), b.copy()), (a.T.copy().T, b.copy()), (a.copy(), b.T.copy().T)):
            assert math.product(np, one, other).tobytes() == np.matmul(one, other).tobytes(), (m, k, n)


def test_large_copies_take_the_processors_that_blas_leaves_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory feeds two threads twice as fast as one, whoever multiplies meanwhile."""
    shares = []
    monkeypatch.setattr(
        parallel, "share", lambda work, blocks, multiplies=True: (shares.append(multiplies), work(blocks))
    )
    value = np.arange((parallel._COPIED >> 2) + 5, dtype=np.float32)
    held = np.zeros_like(value)
    parallel.copy_into(held, value)
    assert (held == value).all() and shares == [False]
    import sparkflow_runtime.threads  # noqa: F401 - says who writes large payloads
    from sparkflow_runtime.transport import shared

    assert shared.Segment._copy is parallel.copy_into
