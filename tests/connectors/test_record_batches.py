"""Arrow batches to records and back: every type of the table, nulls, structs, lists; what does not fit is named."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sparkflow as tf
from sparkflow_connectors.record_batches import Decoder, encoded
from sparkflow_connectors.record_types import Sidecar, check_schema, from_json, to_json
from sparkflow_runtime.records.files import Block
from sparkflow_runtime.records.framing import frames

COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bool": (pa.bool_(), [True, False, None]),
    "i8": (pa.int8(), [-128, 127, None]),
    "i16": (pa.int16(), [None, -5, 300]),
    "i32": (pa.int32(), [2**31 - 1, None, -(2**31)]),
    "i64": (pa.int64(), [2**63 - 1, -(2**63), None]),
    "u32": (pa.uint32(), [2**32 - 1, 0, None]),
    "f32": (pa.float32(), [1.5, None, float("inf")]),
    "f64": (pa.float64(), [1.25, None, -0.0]),
    "dec": (pa.decimal128(10, 2), [Decimal("12.25"), None, Decimal("-0.50")]),
    "text": (pa.string(), ["", "aé", None]),
    "bytes": (pa.binary(), [b"\0\xff", None, b""]),
    "day": (pa.date32(), [dt.date(1969, 7, 20), None, dt.date(2026, 11, 21)]),
    "time": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, 3, 4, 5, 6, dt.UTC), None, None]),
    "ints": (pa.list_(pa.int32()), [[1, 2, 3], [], None]),
    "floats": (pa.list_(pa.float64()), [[0.5], None, [1.0, 2.0]]),
    "texts": (pa.list_(pa.string()), [["a", ""], ["bcd"], None]),
    "bools": (pa.list_(pa.bool_()), [[True, False], None, []]),
    "struct": (
        pa.struct([("x", pa.int64()), ("inner", pa.struct([("s", pa.string())]))]),
        [{"x": 1, "inner": {"s": "a"}}, {"x": None, "inner": {"s": "b"}}, None],
    ),
}
NESTED: dict[str, tuple[pa.DataType, list[Any]]] = {
    "frames": (pa.list_(pa.list_(pa.float32())), [[[1.0, 2.0], []], None, [[3.0]]]),
    "words": (pa.list_(pa.list_(pa.string())), [[["a"], ["b", "c"]], [], None]),
    "days": (pa.list_(pa.list_(pa.date32())), [[[dt.date(2026, 1, 1)]], None, []]),
}


def batch_of(columns: dict[str, tuple[pa.DataType, list[Any]]]) -> pa.RecordBatch:
    arrays = [pa.array(values, dtype) for dtype, values in columns.values()]
    return pa.record_batch(arrays, names=list(columns))


def block(data: np.ndarray) -> Block:
    buffer = np.frombuffer(bytearray(data), np.uint8)
    found = frames(buffer)
    assert not found.bad and found.used == len(buffer)
    return Block(buffer, found.starts, found.ends, 0)


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_every_type_comes_back(record_type: str) -> None:
    batch = batch_of(COLUMNS if record_type == "Example" else COLUMNS | NESTED)
    check_schema(batch.schema, record_type)
    schema, kind, records, _ = from_json(to_json(Sidecar(batch.schema, record_type, {"p/x": 3})), "x")
    assert schema == batch.schema and kind == record_type and records == {"p/x": 3}
    for part in (batch, batch.slice(1), batch.slice(0, 0)):
        assert Decoder(schema, record_type).batch(block(encoded(part, record_type))).to_pylist() == part.to_pylist()


def test_sequences_are_the_messages_of_protobuf() -> None:
    """In all sizes of lists and names, with what is absent absent."""
    rng, rows = np.random.default_rng(1), 60

    def lists(make: Any) -> list[Any]:
        sizes = [None, 0, 1, 3, 40]
        return [None if (n := rng.choice(sizes)) is None else [make() for _ in range(n)] for _ in range(rows)]

    def floats() -> list[float]:
        return rng.standard_normal(rng.choice([0, 1, 200])).astype(np.float32).tolist()

    def ints() -> list[int]:
        return rng.integers(-(2**62), 2**62, rng.integers(4)).tolist()

    columns = {
        "f": (pa.list_(pa.list_(pa.float32())), lists(floats)),
        "ü" * 80: (pa.list_(pa.list_(pa.int64())), lists(ints)),
        "s": (pa.list_(pa.list_(pa.binary())), lists(lambda: [bytes(300), b"", b"a"][: rng.integers(4)])),
        "c": (pa.list_(pa.int64()), lists(lambda: int(rng.integers(9)))),
    }
    batch = batch_of(columns)
    found = block(encoded(batch, "SequenceExample"))
    for row, start, end in zip(batch.to_pylist(), found.starts, found.ends, strict=True):
        expected = tf.train.SequenceExample()
        for (name, value), kind in zip(row.items(), ("float_list", "int64_list", "bytes_list", "int64_list")):
            if value is not None and name != "c":
                features = expected.feature_lists.feature_list[name].feature
                for inner in value:
                    getattr(added := features.add(), kind).value.extend(inner)
                    getattr(added, kind).SetInParent()
            elif value is not None:
                expected.context.feature[name].int64_list.value.extend(value)
                expected.context.feature[name].int64_list.SetInParent()
        expected.context.SetInParent(), expected.feature_lists.SetInParent()
        written = found.buffer[start:end].tobytes()
        assert tf.train.SequenceExample.FromString(written) == expected and len(written) == expected.ByteSize()


def test_sequences_in_forms_that_others_write() -> None:
    """A feature of no kind is an empty list, and the last of two lists of one name counts."""
    first, second = tf.train.SequenceExample(), tf.train.SequenceExample()
    first.feature_lists.feature_list["a"].feature.add().int64_list.value.append(5)
    first.feature_lists.feature_list["other"].feature.add().float_list.value.append(1.0)
    second.feature_lists.feature_list["a"].feature.add()
    second.feature_lists.feature_list["a"].feature.add().int64_list.value.extend([-1, 2**40])
    second.context.feature["c"].bytes_list.value.append(b"x")
    rows = [first.SerializeToString() + second.SerializeToString(), second.SerializeToString(), b""]
    data = block(encoded(pa.record_batch([pa.array(rows)], names=["b"]), "ByteArray"))
    schema = pa.schema([("a", pa.list_(pa.list_(pa.int64()))), ("c", pa.string())])
    found = Decoder(schema, "SequenceExample").batch(data).to_pylist()
    assert found == [{"a": [[], [-1, 2**40]], "c": "x"}] * 2 + [{"a": None, "c": None}]
    wrong = pa.schema([("a", pa.list_(pa.list_(pa.float32())))])
    message = rf"f: the record at byte {12 + len(rows[0]) + 4}: feature 'a' holds int64, the schema says list"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        Decoder(wrong, "SequenceExample").batch(Block(data.buffer, data.starts[1:], data.ends[1:], 0), "f")


def test_what_stands_in_the_messages() -> None:
    batch = batch_of(COLUMNS)
    first = tf.train.Example.FromString(block(encoded(batch)).records()[0])
    assert first.features.feature["bool"].int64_list.value[0] == 1
    assert first.features.feature["day"].int64_list.value[0] == -165
    assert first.features.feature["struct.inner.s"].bytes_list.value[0] == b"a"
    third = tf.train.Example.FromString(block(encoded(batch)).records()[2])
    assert "bool" not in third.features.feature and "ints" not in third.features.feature


def test_byte_arrays() -> None:
    batch = pa.record_batch([pa.array([b"a", b"", b"ccc"])], names=["byteArray"])
    found = block(encoded(batch.slice(1), "ByteArray"))
    assert found.records() == [b"", b"ccc"]
    assert Decoder(batch.schema, "ByteArray").batch(found).to_pylist() == batch.slice(1).to_pylist()


@pytest.mark.parametrize(
    ("dtype", "values", "asked", "message"),
    [
        (pa.list_(pa.int64()), [[1], [2, 3]], pa.int64(), "f: the record at byte 30: feature 'c' has 2 values, the"),
        (pa.string(), ["a", "b"], pa.int64(), "byte 0: feature 'c' holds string, the schema says int64"),
        (pa.int64(), [1, 300], pa.int8(), r"column 'c': Integer value 300 not in range"),
        (pa.list_(pa.int64()), [[1], [None]], None, "column 'c': .*a null inside (its|a) list"),
        (pa.uint64(), [2**64 - 1], None, r"column 'c': Integer value 18446744073709551615 not in range"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_what_does_not_fit(dtype: Any, values: Any, asked: Any, message: str, record_type: str) -> None:
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=message,
    ):
        data = block(encoded(pa.record_batch([pa.array(values, dtype)], names=["c"]), record_type))
        Decoder(pa.schema([("c", asked)]), record_type).batch(data, "f")


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_a_column_that_is_never_null(record_type: str) -> None:
    data = block(encoded(pa.record_batch([pa.array([1, None])], names=["c"]), record_type))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"no feature 'c', which the schema says is never null\. Read"
    ):
        Decoder(pa.schema([pa.field("c", pa.int64(), nullable=False)]), record_type).batch(data)


@pytest.mark.parametrize("record_type", ["Example", "SequenceExample"])
def test_records_of_another_kind(record_type: str) -> None:
    data = block(encoded(pa.record_batch([pa.array([b"\xff\xff\xff"])], names=["b"]), "ByteArray"))
    with pytest.raises(tf.errors.DataLossError, match=f"f: the record at byte 0 is no tf.train.{record_type}"):
        Decoder(pa.schema([("c", pa.int64())]), record_type).batch(data, "f")


@pytest.mark.parametrize(
    ("schema", "record_type", "message"),
    [
        ([("a", pa.list_(pa.list_(pa.int64())))], "Example", "'a': .* lists of lists need recordType Seq"),
        ([("a", pa.map_(pa.string(), pa.int64()))], "Example", "column 'a': map.* cannot be written as Example"),
        ([("a", pa.duration("s"))], "Example", "column 'a': duration"),
        ([("a", pa.list_(pa.list_(pa.duration("s"))))], "SequenceExample", "as SequenceExample; it has no feature ty"),
        ([("a.b", pa.int64()), ("a", pa.struct([("b", pa.int64())]))], "Example", "column 'a.b': two columns would be"),
        ([("a", pa.int64())], "ByteArray", "takes one binary column; the table has .*a: int64"),
        ([("a", pa.int64())], "Examples", "expected one of Example, SequenceExample, ByteArray, got 'Exampl"),
    ],
)  # fmt: skip
def test_schemas_that_cannot_be_written(schema: Any, record_type: str, message: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        check_schema(pa.schema(schema), record_type)


def test_a_sidecar_that_is_none() -> None:
    for text in (
        "",
        "{}",
        '{"version": 2}',
        '{"version": 1, "recordType": "Example", "fields": [{"name": "a", "type": "int99", "nullable": true}]}',
        '{"version": 1, "recordType": "Exampl", "fields": []}',
        b'{"version": 1, "recordTy\xf0e": "Example", "fields": []}',
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match="x is no schema that this version can read"):
            from_json(text, "x")


def test_a_sidecar_that_is_damaged() -> None:
    """In any byte: what it says then may still be JSON, with another name of a column."""
    side = Sidecar(pa.schema([pa.field("clicks", pa.int16()), pa.field("at", pa.date32())]), "Example", {"part-0": 7})
    text = to_json(side).encode()
    assert from_json(text.replace(b"\n", b""), "x") == side
    for at in range(len(text)):
        broken = text[:at] + bytes([text[at] ^ 1]) + text[at + 1 :]
        try:
            assert from_json(broken, "x") == side, "in the spaces between, or the name of the checksum"
        except tf.errors.InvalidArgumentError as error:
            assert "x is no schema that this version can read" in error.message
    by_hand = "\n".join(line for line in to_json(side).replace("clicks", "views").splitlines() if "crc32c" not in line)
    assert from_json(by_hand.replace("},\n}", "}\n}"), "x").schema.names == ["views", "at"]
