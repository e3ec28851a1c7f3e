"""Einsum: every way of joining labels gives what numpy's own loop gives."""

from __future__ import annotations

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.kernels import einsum

SIZES = dict(zip("abijklmn", (3, 2, 5, 4, 6, 3, 2, 7)))
EQUATIONS = [
    "ij,jk->ik", "ij,kj->ik", "ji,jk->ki", "ij,jk->ki", "aij,ajk->aik", "aij,ajk->aki", "aij,akj->ika", "ija,jka->aik",
    "bija,bkja->bikja", "ijk,ijk->", "ijk,ijk->ij", "aij,aij->a", "i,j->ij", "i,j->ji", "ai,aj->aij", "ij,k->i",
    "aijk,kjl->ail", "ijkl,klmn->ijmn", "ijkl,lk->ji", "abij,jk->abik", "i,i->", "ij,->ij", ",->", "ij,ij->ji",
    "ij,jk,kl->il", "aij,bj,k->abik", "ij,jk,kl,lm->mi", "a,ai,aij->aj", "ij,jk,kl,jl->i",
]  # fmt: skip


@pytest.mark.parametrize("equation", EQUATIONS)
def test_products_of_labels(graph: object, equation: str) -> None:
    rng, labels = np.random.default_rng(0), equation.partition("->")[0].split(",")
    inputs = [rng.normal(size=[SIZES[c] for c in own]) for own in labels]
    assert einsum._steps(*equation.split("->"), tuple(x.shape for x in inputs)) is not None  # type: ignore[misc]
    with tf.Session() as session:
        found = session.run(tf.raw_ops.Einsum(inputs=[tf.constant(x) for x in inputs], equation=equation))
    wanted = np.einsum(equation, *inputs)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4, 5), (3, 5, 2)]),
        ("i...,i->...", [(3, 4, 2), (3,)]),
        ("...ij,jk->k...i", [(2, 3, 5), (5, 4)]),
        ("...ij,...jk->...ik", [(1, 4, 5), (3, 5, 2)]),
        ("ij,jk->ik", [(0, 3), (3, 2)]),
        ("ij,jk->ik", [(2, 0), (0, 3)]),
        ("ii,ij->j", [(3, 3), (3, 2)]),
        ("ij,jk->iik", [(3, 4), (4, 2)]),
    ],
)
def test_ellipses_repeats_and_nothing(graph: object, equation: str, shapes: list[tuple[int, ...]]) -> None:
    inputs = [np.random.default_rng(0).normal(size=s) for s in shapes]
    with tf.Session() as session:
        found = session.run(tf.raw_ops.Einsum(inputs=[tf.constant(x) for x in inputs], equation=equation))
    if equation.endswith("iik"):
        wanted = np.zeros((3, 3, 2))
        wanted[range(3), range(3)] = inputs[0] @ inputs[1]
    else:
        wanted = np.einsum(equation, *inputs)
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


def test_sizes_that_differ(graph: object) -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    product = tf.raw_ops.Einsum(inputs=[a, b], equation="ij,jk->ik")
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="Einsum"):
        session.run(product, {a: np.ones((2, 3)), b: np.ones((4, 2))})
