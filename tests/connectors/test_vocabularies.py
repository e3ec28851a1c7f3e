"""A training that goes on by another vocabulary would take rows of embeddings for other words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.schema import resolve
from sparkflow_connectors.vocabularies import kept

COLUMNS = resolve(pa.schema([("s", pa.string())]), [tf.local.Column("s", vocabulary=["a"])], None)


def trained(folder: Path, words: str | int, epochs: int = 1, **options: Any) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        p = tf.nn.embedding_lookup(tf.get_variable("table", [8], tf.float64, tf.zeros_initializer()), features["s"])
        if mode == tf.estimator.ModeKeys.PREDICT:
            return tf.estimator.EstimatorSpec(mode, predictions={"p": p})
        step = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(p), tf.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(p), train_op=step)

    read = {"hash_buckets": words} if isinstance(words, int) else {"vocabulary": list(words)}
    column = tf.local.Column("s", **read)  # type: ignore[arg-type]
    return tf.local.train(
        pa.table({"s": ["a", "b", "b"]}), model_fn, label=None, features=[column], workers=1, sync=False,
        epochs=epochs, batch_size=8, validation=0.0, uneven="join", checkpoint_dir=str(folder), **options,
    )  # fmt: skip


def test_a_training_goes_on_by_the_words_it_began_with(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    trained(folder, "ab")
    for words, is_now in (("ba", "2, of which the first 2 are others or in other places"), ("a", "1")):
        for epochs in (1, 2):
            with pytest.raises(
                tf.errors.FailedPreconditionError, match=f"'s' by a vocabulary of 2, and .* of {is_now}"
            ):
                trained(folder, words, epochs)
    model = trained(folder, "abc", 2)
    assert model.variables()["table"].tolist()[:3] == [-2, -4, 0]
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"of 3, .* remove .*/out/vocabularies\.json$"):
        trained(folder, "abd", 2)
    (folder / "vocabularies.json").unlink()
    assert trained(folder, "abd", 2).variables()["table"].tolist()[:3] == [-2, -4, 0]


def test_a_training_goes_on_by_the_hashes_it_began_with(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    trained(folder, 8)
    trained(folder, 8, 2)
    for words, is_now in ((4, "by hashes modulo 4"), ("ab", "by a vocabulary of 2")):
        with pytest.raises(
            tf.errors.FailedPreconditionError, match=f"'s' by hashes modulo 8, and this one reads it {is_now}"
        ):
            trained(folder, words, 3)
    (folder / "vocabularies.json").unlink()
    trained(folder, "ab", 3)
    with pytest.raises(
        tf.errors.FailedPreconditionError, match="'s' by a vocabulary of 2, and this one reads it by hashes modulo 8"
    ):
        trained(folder, 8, 4)


def test_nothing_is_noted_of_a_training_without_a_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with pytest.raises(tf.errors.InvalidArgumentError):
        trained(folder, "x")  # -1 is no row of a table
    assert not (folder / "vocabularies.json").exists()
    (folder / "vocabularies.json").write_text('{"s": [1, "of one that was killed before", 0]}')
    with kept(str(folder), COLUMNS):
        pass
    assert "killed" not in (folder / "vocabularies.json").read_text()
