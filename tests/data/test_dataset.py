"""tf.data against plain Python."""

from __future__ import annotations

import contextlib
import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

D = tf.data.Dataset


def _all(dataset: Any) -> list[Any]:
    element = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


CASES: list[tuple[str, Any, list[Any]]] = [
    ("range", lambda: D.range(2, 8, 2), [2, 4, 6]),
    ("slices", lambda: D.from_tensor_slices([1, 2, 3]), [1, 2, 3]),
    ("repeat", lambda: D.range(2).repeat(2), [0, 1, 0, 1]),
    ("take", lambda: D.range(2).repeat().take(3), [0, 1, 0]),
    ("skip", lambda: D.range(4).skip(2), [2, 3]),
    ("shard", lambda: D.range(5).shard(2, 1), [1, 3]),
    ("concatenate", lambda: D.range(2).concatenate(D.range(1)), [0, 1, 0]),
    ("map", lambda: D.range(3).map(lambda x: x * x), [0, 1, 4]),
    ("filter", lambda: D.range(5).filter(lambda x: tf.equal(x % 2, 0)), [0, 2, 4]),
    (
        "flat_map",
        lambda: D.range(3).flat_map(lambda x: D.from_tensor_slices(tf.stack([x, x * 10]))),
        [0, 0, 1, 10, 2, 20],
    ),
    ("interleave", lambda: D.range(2).interleave(lambda x: D.from_tensors(x).repeat(2), 2), [0, 1, 0, 1]),
    ("generator", lambda: D.from_generator(lambda: iter([1, 2]), tf.int32, []), [1, 2]),
    ("cache", lambda: D.range(2).cache().repeat(2), [0, 1, 0, 1]),
]


@pytest.mark.parametrize("name, build, expected", CASES, ids=[c[0] for c in CASES])
def test_numbers(graph: Any, name: str, build: Any, expected: Any) -> None:
    assert [int(v) for v in _all(build())] == expected


def test_batches(graph: Any) -> None:
    batches = D.from_tensor_slices((np.arange(5), {"a": np.ones((5, 2))})).batch(2)
    assert batches.output_types == (tf.int64, {"a": tf.float64})
    assert batches.output_shapes[1]["a"].as_list() == [None, 2]
    found = _all(batches)
    assert [f[0].tolist() for f in found] == [[0, 1], [2, 3], [4]] and found[0][1]["a"].shape == (2, 2)
    assert len(_all(D.range(5).batch(2, drop_remainder=True))) == 2
    ragged = D.from_generator(lambda: iter([[1], [1, 2]]), tf.int32, [None])
    assert _all(ragged.padded_batch(2, [None]))[0].tolist() == [[1, 0], [1, 2]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="padded_batch"):
        _all(ragged.batch(2))


def test_shuffles(graph: Any) -> None:
    twice = [int(v) for v in _all(D.range(50).shuffle(20, seed=3).repeat(2))]
    assert (
        sorted(twice) == sorted(2 * list(range(50))) and twice[:50] != sorted(twice[:50]) and twice[:50] != twice[50:]
    )
    same = [int(v) for v in _all(D.range(9).shuffle(9, seed=3, reshuffle_each_iteration=False).repeat(2))]
    assert same[:9] == same[9:]


def test_zip_and_dicts(graph: Any) -> None:
    both = D.zip((D.range(3), D.range(10, 20))).map(lambda a, b: {"sum": a + b, "a": a})
    assert [(int(f["sum"]), int(f["a"])) for f in _all(both)] == [(10, 0), (12, 1), (14, 2)]


def test_initializable(graph: Any) -> None:
    x = tf.placeholder(tf.float32, [None])
    iterator = D.from_tensor_slices(x).map(lambda v: v + 1).make_initializable_iterator()
    element = iterator.get_next()
    with pytest.raises(ValueError, match="initializable"):
        D.from_tensor_slices(x).make_one_shot_iterator()
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="initializ"):
            session.run(element)
        for values in ([1, 2], [5]):
            session.run(iterator.initializer, {x: values})
            assert [session.run(element) for _ in values] == [v + 1 for v in values]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_files(tmp_path: Path, graph: Any) -> None:
    text, records, fixed = tmp_path / "t.csv", str(tmp_path / "r"), tmp_path / "f"
    text.write_text("a,b\n1,x\n2,y\n")
    with tf.io.TFRecordWriter(records) as writer:
        writer.write(b"one")
        writer.write(b"two")
    fixed.write_bytes(b"Habcdef")
    assert _all(tf.data.TextLineDataset(str(text)).skip(1)) == [b"1,x", b"2,y"]
    assert _all(tf.data.TFRecordDataset([records, records])) == [b"one", b"two", b"one", b"two"]
    assert _all(tf.data.FixedLengthRecordDataset(str(fixed), 3, header_bytes=1)) == [b"abc", b"def"]
    rows = _all(tf.data.experimental.CsvDataset(str(text), [tf.int32, "none"], header=True))
    assert [(int(a), b) for a, b in rows] == [(1, b"x"), (2, b"y")]
    with pytest.raises(tf.errors.NotFoundError, match="nowhere"):
        _all(tf.data.TextLineDataset(str(tmp_path / "nowhere")))


@pytest.mark.parametrize("kind", ["", "GZIP", "ZLIB"])
def test_text_files_in_every_compression(tmp_path: Path, graph: Any, kind: str) -> None:
    """Only a line feed ends a line; what is damaged is named."""
    path, text = tmp_path / "t", b"a\rb\r\n\r\r\n\xc2\x85c\x0bd\n\ne"
    whole = {"": lambda b: b, "GZIP": gzip.compress, "ZLIB": zlib.compress}[kind](text)
    path.write_bytes(whole)
    assert _all(tf.data.TextLineDataset(str(path), kind)) == [b"ab", b"", b"\xc2\x85c\x0bd", b"", b"e"]
    assert _all(tf.data.FixedLengthRecordDataset(str(path), len(text), compression_type=kind)) == [text]
    for bad in (whole[:-6], b"no such thing") if kind else ():
        path.write_bytes(bad)
        with pytest.raises(tf.errors.DataLossError, match=f"{path}: .* or no {kind} file"):
            _all(tf.data.TextLineDataset(str(path), kind))
    with pytest.raises(tf.errors.FailedPreconditionError, match=f"{tmp_path} is a directory"):
        _all(tf.data.TextLineDataset(str(tmp_path), kind))
    with pytest.raises(tf.errors.InvalidArgumentError, match="compression: expected one of"):
        _all(tf.data.TextLineDataset(str(path), "BZIP2"))


def test_refusals(graph: Any) -> None:
    with pytest.raises(ValueError, match="rows"):
        D.from_tensor_slices((np.ones(2), np.ones(3)))
    with pytest.raises(ValueError, match="scalar"):
        D.from_tensor_slices(1.0)
    with pytest.raises(ValueError, match="is empty"):
        D.from_tensor_slices({})
    with pytest.raises(tf.errors.InvalidArgumentError, match="yielded"):
        _all(D.from_generator(lambda: iter(["a"]), tf.int32))


def test_a_model_trains_from_it(graph: Any) -> None:
    x = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)
    data = D.from_tensor_slices((x, x @ np.array([1, 2], np.float32))).shuffle(64, seed=1).repeat(20).batch(16)
    features, wanted = data.make_one_shot_iterator().get_next()
    loss = tf.losses.mean_squared_error(wanted, tf.layers.dense(features, 1)[:, 0])
    train = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        last = [session.run([loss, train])[0] for _ in range(80)][-1]
    assert last < 1e-3


def test_each_session_has_its_own_place(graph: Any) -> None:
    element = D.range(3).make_one_shot_iterator().get_next()
    for _ in range(2):
        with tf.Session() as session:
            assert [session.run(element), session.run(element)] == [0, 1]


def test_reinitializable_iterators(graph: Any) -> None:
    train, test = D.range(3), D.range(10, 12)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    element, first, second = iterator.get_next(), iterator.make_initializer(train), iterator.make_initializer(test)
    with pytest.raises(ValueError, match="initializer"):
        iterator.initializer  # noqa: B018
    with pytest.raises(TypeError, match="output types"):
        iterator.make_initializer(D.from_tensor_slices([1.0]))
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(element)
        for begin, expected in ((first, [0, 1]), (second, [10, 11]), (first, [0, 1, 2])):
            session.run(begin)
            assert [session.run(element) for _ in expected] == expected
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element)


def test_feedable_iterators(graph: Any) -> None:
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, tf.int64, []).get_next()
    endless, finite = D.range(5).repeat().make_one_shot_iterator(), D.range(7, 9).make_initializable_iterator()
    with tf.Session() as session:
        a, b = session.run([endless.string_handle(), finite.string_handle()])
        assert [session.run(element, {handle: a}) for _ in range(3)] == [0, 1, 2]
        session.run(finite.initializer)
        assert [session.run(element, {handle: b}) for _ in range(2)] == [7, 8]
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(element, {handle: b})
        assert session.run(element, {handle: a}) == 3
        with pytest.raises(tf.errors.InvalidArgumentError, match="string_handle"):
            session.run(element, {handle: "nobody"})


def test_files_numbers_and_rows(graph: Any, tmp_path: Path) -> None:
    for name in "ba":
        (tmp_path / f"{name}.txt").write_text(f"{name}1\n{name}2\n")
    lines = D.list_files(f"{tmp_path}/*.txt", shuffle=False).flat_map(tf.data.TextLineDataset)
    assert _all(lines.enumerate(5)) == [(5, b"a1"), (6, b"a2"), (7, b"b1"), (8, b"b2")]
    assert sorted(_all(D.list_files([f"{tmp_path}/a*", f"{tmp_path}/b*"]))) == [
        f"{tmp_path}/{n}.txt".encode() for n in "ab"
    ]
    with pytest.raises(tf.errors.InvalidArgumentError, match="no files matched"):
        D.list_files(f"{tmp_path}/*.csv")
    assert [int(v) for v in _all(D.range(5).batch(2).unbatch())] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="scalar"):
        D.range(3).unbatch()


# ---------------------------------------------------------------------- functions that take tensors of the graph around


def all_of(dataset: tf.data.Dataset, feeds: Any = None, before: Any = ()) -> list[Any]:
    iterator = dataset.make_initializable_iterator()
    element, found = iterator.get_next(), []
    with tf.Session() as session:
        session.run(list(before))
        session.run(iterator.initializer, feeds)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(element))
    return found


def test_a_function_takes_tensors_of_the_graph_around_it(graph: Any) -> None:
    """A constant, a placeholder, a variable's value at initialization, and a result without an element."""
    fixed, fed = tf.constant(10, tf.int64), tf.placeholder(tf.int64, [])
    v = tf.get_variable("v", [], tf.int64, initializer=tf.constant_initializer(100))
    rows = tf.data.Dataset.range(4).map(lambda x: x * fixed + fed).filter(lambda x: x < v).map(lambda x: (x, fed))
    assert all_of(rows, {fed: 75}, [v.initializer]) == [(75, 75), (85, 75), (95, 75)]
    once = tf.data.Dataset.range(2).map(lambda x: x * fixed).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(once) for _ in range(2)] == [0, 10]
    with pytest.raises(ValueError, match="A one-shot iterator needs constants"):
        tf.data.Dataset.range(2).map(lambda x: x * fed).make_one_shot_iterator()


def test_functions_in_functions_take_tensors_too(graph: Any) -> None:
    fed = tf.placeholder(tf.int64, [])
    rows = tf.data.Dataset.range(1, 3).flat_map(
        lambda x: tf.data.Dataset.range(2).map(lambda y: 100 * x + 10 * y + fed)
    )
    assert all_of(rows, {fed: 7}) == [107, 117, 207, 217]
    own = tf.data.Dataset.range(1, 3).flat_map(lambda x: tf.data.Dataset.from_tensors(fed + x))
    assert all_of(own, {fed: 7}) == [8, 9]


@pytest.mark.parametrize("from_file", [False, True])
def test_a_function_looks_words_up(graph: Any, tmp_path: Path, from_file: bool) -> None:
    words = ["a", "b", "c"]
    if from_file:
        (tmp_path / "words").write_text("\n".join(words))
        table = tf.contrib.lookup.index_table_from_file(str(tmp_path / "words"), default_value=-1)
    else:
        table = tf.contrib.lookup.index_table_from_tensor(tf.constant(words), default_value=-1)
    lines = tf.data.Dataset.from_tensor_slices(["c a", "b x"]).map(lambda line: tf.string_split([line]).values)
    found = all_of(lines.map(table.lookup), before=[tf.tables_initializer()])
    np.testing.assert_array_equal(found, [[2, 0], [1, -1]])


def test_a_function_refuses_tables_that_change(graph: Any) -> None:
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    with pytest.raises(tf.errors.UnimplementedError, match="only tables that are filled once"):
        tf.data.Dataset.from_tensor_slices(["a"]).map(table.lookup)
    stranger = tf.Graph()
    with stranger.as_default():
        other = tf.constant(1, tf.int64)
    with pytest.raises(ValueError, match="must be from the same graph"):
        tf.data.Dataset.range(2).map(lambda x: x + other)


def test_padded_batches_have_scalars_too(graph: Any) -> None:
    """A sequence, its length and its name, as models of sequences take them."""
    rows = [([1, 2], 2, "a"), ([3], 1, "b")]
    dataset = D.from_generator(lambda: iter(rows), (tf.int32, tf.int32, tf.string), ([None], (), ()))
    (found,) = _all(dataset.padded_batch(2, ([None], (), ())))
    np.testing.assert_array_equal(found[0], [[1, 2], [3, 0]])
    assert found[1].tolist() == [2, 1] and found[2].tolist() == [b"a", b"b"]


def test_settings_may_be_tensors(graph: Any) -> None:
    """Of what the iterator is initialized with; in functions too."""
    n = tf.placeholder(tf.int64, [])
    rows = D.range(10).skip(n).take(n * 2).repeat(n - 1).batch(n)
    assert [r.tolist() for r in all_of(rows, {n: 2})] == [[2, 3], [4, 5]]
    assert [r.tolist() for r in all_of(rows, {n: 3})] == [[3, 4, 5], [6, 7, 8]] * 2
    ragged = D.range(3).map(lambda x: tf.fill([x], x)).padded_batch(n, [None], n * 100)
    assert [r.tolist() for r in all_of(ragged, {n: 3})] == [[[300, 300], [1, 300], [2, 2]]]
    inner = D.range(1, 3).flat_map(lambda x: D.range(4).batch(n + x))
    assert [r.tolist() for r in all_of(inner, {n: 1})] == [[0, 1], [2, 3], [0, 1, 2], [3]]
    known = D.range(4).batch(tf.constant(2, tf.int64), drop_remainder=True)
    assert known.output_shapes.as_list() == [2] and [r.tolist() for r in _all(known)] == [[0, 1], [2, 3]]


def test_names_and_signatures_are_taken() -> None:
    class Spec:
        def __init__(self, shape: Any, dtype: Any):
            self.shape, self.dtype = shape, dtype

    made = D.from_generator(lambda: iter([(1, [2.0])]), output_signature=(Spec([], tf.int32), Spec([1], tf.float32)))
    assert made.output_types == (tf.int32, tf.float32) and made.output_shapes[1].as_list() == [1]
    with pytest.raises(TypeError, match="output_signature"):
        D.from_generator(lambda: iter([1]))
    named = D.zip(D.range(4, name="a"), D.range(4)).map(lambda a, b: a + b, name="b").batch(2, name="c")
    named = named.shuffle(1, name="d").repeat(1, name="e").take(9, name="f").skip(0, name="g").prefetch(1, name="h")
    assert [x.tolist() for x in _all(named)] == [[0, 2], [4, 6]]


def test_strings_that_end_in_zeros(graph: Any, tmp_path: Path) -> None:
    """As a record whose last feature is a 0 does; what is cut off could not be parsed any more."""
    texts = [b"a\0", b"\0\0", b"", b"x\0y", b"z"]
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path) as writer:
        for text in texts:
            writer.write(text)
    assert _all(tf.data.TFRecordDataset(path)) == texts
    assert _all(D.from_tensor_slices(texts)) == _all(D.from_tensor_slices(np.array(texts, object))) == texts
    assert [x for batch in _all(tf.data.TFRecordDataset(path).batch(2)) for x in batch] == texts
    example = tf.train.Example()
    example.features.feature["n"].int64_list.value.append(0)
    one = D.from_tensors(example.SerializeToString()).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(tf.parse_single_example(one, {"n": tf.FixedLenFeature([], tf.int64)})) == {"n": 0}


def test_strings_of_python_functions(graph: Any) -> None:
    with tf.Session() as session:
        for value in (b"a\0", "a\0", np.bytes_(b"a\0"), (b"a\0",), np.array(b"a\0", object)):
            assert session.run(tf.py_func(lambda value=value: value, [], tf.string)) == b"a\0"
        nested = tf.py_func(lambda: ([[b"a\0"], [b"c"]],), [], tf.string)
        assert session.run(nested).tolist() == [[b"a\0"], [b"c"]]
        for wrong, kind in (([3], "int"), ([None], "NoneType")):
            told = tf.py_func(lambda wrong=wrong: np.array(wrong, object), [], tf.string)
            with pytest.raises(tf.errors.InvalidArgumentError, match=f"has a {kind}, but expects string"):
                session.run(told)


def test_files_that_are_read_in_turn(graph: Any, tmp_path: Path) -> None:
    """In TensorFlow's order (of 2.21): who has no more makes room for the next file, at the end of the turn."""
    paths = []
    for file, count in enumerate((3, 1, 4, 0, 2)):
        paths.append(str(tmp_path / f"{file}"))
        with tf.python_io.TFRecordWriter(paths[-1]) as writer:
            for i in range(count):
                writer.write(f"{file}:{i}".encode())

    def read(together: int) -> str:
        return b" ".join(_all(tf.data.TFRecordDataset(paths, num_parallel_reads=together))).decode()

    assert read(1) == "0:0 0:1 0:2 1:0 2:0 2:1 2:2 2:3 4:0 4:1"
    assert read(2) == "0:0 1:0 0:1 0:2 2:0 2:1 2:2 4:0 2:3 4:1"
    assert read(3) == "0:0 1:0 2:0 0:1 2:1 0:2 2:2 4:0 2:3 4:1"


def test_each_iterator_keeps_a_cache_of_its_own(graph: Any) -> None:
    """Training that repeats a cached dataset is not to make it anew because an evaluation has begun in between."""
    made: list[int] = []

    def seen(x: Any) -> Any:
        made.append(int(x))
        return x

    rows = D.range(3).map(lambda x: tf.py_func(seen, [x], tf.int64)).cache()
    training, evaluation = (tf.data.make_initializable_iterator(d) for d in (rows.repeat(), rows))
    taken, other = training.get_next(), evaluation.get_next()
    with tf.Session() as session:
        session.run(training.initializer)
        for _ in range(3):
            assert [session.run(taken) for _ in range(3)] == [0, 1, 2]
            session.run(evaluation.initializer)
            assert [session.run(other) for _ in range(3)] == [0, 1, 2]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(other)
    assert len(made) == 3 + 3 * 3


def test_a_cache_is_of_one_initialization(graph: Any) -> None:
    """Its values would be those of another file or array else; within one, each element is made once."""
    hold, made = tf.placeholder(tf.int64, [None]), list[int]()

    def seen(x: Any) -> Any:
        made.append(int(x))
        return x

    rows = D.from_tensor_slices(hold).map(lambda x: tf.py_func(seen, [x], tf.int64)).cache().repeat(2)
    iterator = rows.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for given in ([1, 2], [5, 6], [5, 6]):
            session.run(iterator.initializer, {hold: given})
            assert [int(session.run(element)) for _ in range(4)] == given * 2
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)
    assert made == [1, 2, 5, 6, 5, 6]


def test_a_cache_that_a_dataset_has_twice_is_filled_once(graph: Any) -> None:
    made: list[int] = []

    def seen(x: Any) -> Any:
        made.append(int(x))
        return x

    kept = D.range(3).map(lambda x: tf.py_func(seen, [x], tf.int64)).cache()
    assert _all(kept.concatenate(D.zip((kept, kept)).map(lambda x, y: x + y)).repeat(2)) == [0, 1, 2, 0, 2, 4] * 2
    assert made == [0, 1, 2]


def test_what_draws_draws_alike_wherever_a_dataset_has_it(graph: Any) -> None:
    """Features and labels of one shuffled dataset stay side by side, with a seed; each epoch has another order."""
    numbers = D.range(30).shuffle(30, seed=5)
    pairs = _all(D.zip((numbers, numbers.map(lambda x: -x))).repeat(2))
    assert [x for x, _ in pairs] == [-y for _, y in pairs]
    assert sorted(x for x, _ in pairs[:30]) == list(range(30)) and pairs[:30] != pairs[30:]


@pytest.mark.parametrize("size", [0, -1])
def test_a_padded_batch_of_no_elements_is_refused(size: int, graph: Any) -> None:
    """When the iterator is initialized, as batch does; it was an end of the data."""
    hold = tf.placeholder(tf.int64, [])
    for given in (size, hold):
        iterator = D.range(6).padded_batch(given, []).make_initializable_iterator()
        with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="greater than zero, got"):
            session.run(iterator.initializer, {hold: size})
