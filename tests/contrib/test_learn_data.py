"""Data sets of files, texts as numbers, and the projector's configuration."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import learn
from sparkflow.contrib.tensorboard.plugins import projector
from sparkflow.examples.tutorials.mnist import input_data, mnist

COUNTS = {"train": 60, "t10k": 10}


def digits(folder: Path) -> None:
    """The four files; an image is filled with its number, its label the last digit of that."""
    for name, n in COUNTS.items():
        images = np.repeat(np.arange(n, dtype=np.uint8), 784).tobytes()
        labels = (np.arange(n) % 10).astype(np.uint8).tobytes()
        for kind, head, body in (("images-idx3", (2051, n, 28, 28), images), ("labels-idx1", (2049, n), labels)):
            content = struct.pack(f">{len(head)}I", *head) + body
            (folder / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(content))


def test_mnist_from_its_files(tmp_path: Path) -> None:
    digits(tmp_path)
    sets = input_data.read_data_sets(str(tmp_path), one_hot=True, validation_size=20)
    assert [s.num_examples for s in sets] == [40, 20, 10] and sets.train.images.shape == (40, 784)
    np.testing.assert_allclose(sets.validation.images[:, 0] * 255, np.arange(20), rtol=1e-6)
    np.testing.assert_array_equal(sets.test.labels, np.eye(10))
    seen = [sets.train.next_batch(16) for _ in range(3)]
    assert sets.train.epochs_completed == 1 and all(len(x) == len(y) == 16 for x, y in seen)
    first = np.concatenate([x for x, _ in seen])[:40, 0] * 255
    np.testing.assert_allclose(np.sort(first), np.arange(20, 60), rtol=1e-6)
    assert not np.array_equal(first, np.arange(20, 60))
    for x, y in seen:
        np.testing.assert_array_equal(np.round(x[:, 0] * 255) % 10, y.argmax(1))


def test_mnist_as_bytes_in_order(tmp_path: Path) -> None:
    digits(tmp_path)
    sets = learn.datasets.mnist.read_data_sets(str(tmp_path), dtype=tf.uint8, reshape=False, validation_size=0)
    images, labels = sets.train.next_batch(3, shuffle=False)
    assert images.shape == (3, 28, 28, 1) and images.dtype == np.uint8 and labels.tolist() == [0, 1, 2]


def test_the_seed_of_the_graph_orders_the_batches(tmp_path: Path, graph: Any) -> None:
    digits(tmp_path)
    tf.set_random_seed(3)
    one, other = (input_data.read_data_sets(str(tmp_path), validation_size=0) for _ in range(2))
    np.testing.assert_array_equal(one.train.next_batch(9)[1], other.train.next_batch(9)[1])
    expected = np.arange(60)
    np.random.RandomState(3).shuffle(expected)  # as TensorFlow's
    np.testing.assert_array_equal(one.train.next_batch(9)[1], expected[9:18] % 10)


def test_mnist_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(tf.errors.NotFoundError, match=r"train-images-idx3-ubyte\.gz.*Nothing is downloaded"):
        input_data.read_data_sets(str(tmp_path))
    digits(tmp_path)
    with pytest.raises(ValueError, match="between 0 and 60"):
        input_data.read_data_sets(str(tmp_path), validation_size=61)
    with pytest.raises(TypeError, match="expected uint8 or float32"):
        input_data.read_data_sets(str(tmp_path), dtype=tf.int32, validation_size=0)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(struct.pack(">2I", 2049, 60) + b"12"))
    with pytest.raises(tf.errors.DataLossError, match=r"train-labels.*2 bytes where \[60\]"):
        input_data.read_data_sets(str(tmp_path), validation_size=0)
    labels.write_bytes(gzip.compress(struct.pack(">2I", 7, 60)))
    with pytest.raises(tf.errors.InvalidArgumentError, match="begins with 2049, got 7"):
        input_data.read_data_sets(str(tmp_path), validation_size=0)


def test_fake_data_is_of_class_0() -> None:
    images, labels = input_data.read_data_sets("nowhere", fake_data=True, one_hot=True).train.next_batch(2)
    assert np.shape(images) == (2, 784) and labels == [[1, *[0] * 9]] * 2


def test_the_tutorials_network_learns(graph: Any) -> None:
    tf.set_random_seed(7)
    x = np.random.default_rng(0).random((20, mnist.IMAGE_PIXELS), dtype=np.float32)
    labels = np.arange(20) % 10
    logits = mnist.inference(tf.constant(x), 32, 16)
    loss = mnist.loss(logits, labels)
    train, right = mnist.training(loss, 0.03), mnist.evaluation(logits, labels)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first = session.run(loss)
        for _ in range(80):
            session.run(train)
        assert session.run(loss) < first / 2 and session.run(right) > 10
    assert "hidden1/weights:0" in [v.name for v in tf.trainable_variables()]


def test_csv_files(tmp_path: Path) -> None:
    path = tmp_path / "iris.csv"
    path.write_text("2,3,setosa,virginica\n1.5,2,3,0\n4,5,6,1\n")
    data, target = learn.datasets.base.load_csv_with_header(str(path), np.int64, np.float32)
    np.testing.assert_array_equal(data, [[1.5, 2, 3], [4, 5, 6]])
    assert target.tolist() == [0, 1] and data.dtype == np.float32
    path.write_text("1,2,a\n3,4,b\n")
    plain = learn.datasets.base.load_csv_without_header(str(path), str, np.float32)
    np.testing.assert_array_equal(plain.data, [[1, 2], [3, 4]])
    assert plain.target.tolist() == ["a", "b"]


def test_texts_become_word_numbers(tmp_path: Path) -> None:
    texts = ["The cat sat", "the CatDog sat on the mat, didn't it"]
    processor = learn.preprocessing.VocabularyProcessor(5)
    ids = np.array(list(processor.fit_transform(texts)))
    np.testing.assert_array_equal(ids, [[1, 2, 3, 0, 0], [4, 5, 6, 3, 7]])
    assert len(processor.vocabulary_) == 11 and ids.dtype == np.int64
    assert next(processor.reverse(ids)) == "The cat sat <UNK> <UNK>"
    processor.save(str(tmp_path / "vocabulary"))
    restored = learn.preprocessing.VocabularyProcessor.restore(str(tmp_path / "vocabulary"))
    np.testing.assert_array_equal(list(restored.transform(["on a mat"])), [[7, 0, 8, 0, 0]])


def test_rare_words_are_unknown() -> None:
    split = lambda texts: (t.split() for t in texts)  # noqa: E731
    processor = learn.preprocessing.VocabularyProcessor(4, min_frequency=1, tokenizer_fn=split)
    np.testing.assert_array_equal(list(processor.fit_transform(["b b b a", "c a b"])), [[1, 1, 1, 2], [0, 2, 1, 0]])


def test_texts_as_bytes() -> None:
    processor = learn.preprocessing.ByteProcessor(4)
    rows = list(processor.transform(["é!", "abcdef"]))
    np.testing.assert_array_equal(rows, [[0xC3, 0xA9, 0x21, 0], list(b"abcd")])
    assert list(processor.reverse(rows)) == ["é!", "abcd"]


def test_the_projector_finds_its_configuration(graph: Any, tmp_path: Path) -> None:
    config = projector.ProjectorConfig()
    embedding = config.embeddings.add()
    embedding.tensor_name, embedding.metadata_path = "words:0", "labels.tsv"
    projector.visualize_embeddings(tf.summary.FileWriter(str(tmp_path)), config)
    assert 'tensor_name: "words:0"' in (tmp_path / "projector_config.pbtxt").read_text()
    assert tf.contrib.tensorboard.plugins.projector is projector
