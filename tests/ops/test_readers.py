"""Readers fed by queues of file names."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

import sparkflow as tf
from sparkflow_runtime.worker.step import Step


def records(path: Path, values: list[bytes], options: Any = None) -> str:
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for value in values:
            writer.write(value)
    return str(path)


def drained(session: Any, fetch: Any) -> list[Any]:
    out = []
    while True:
        try:
            out.append(session.run(fetch))
        except tf.errors.OutOfRangeError:
            return out


def started(names: list[str], epochs: int = 1) -> tuple[Any, Any]:
    queue = tf.train.string_input_producer(names, num_epochs=epochs, shuffle=False)
    session = tf.Session()
    return queue, session


def run_all(session: Any, fetch: Any) -> list[Any]:
    with session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            return drained(session, fetch)
        finally:
            coordinator.request_stop()
            coordinator.join(threads)


@pytest.mark.parametrize("options", [None, tf.python_io.TFRecordOptions("GZIP")])
def test_records_one_by_one(graph: Any, tmp_path: Path, options: Any) -> None:
    files = [records(tmp_path / "a", [b"1", b"22"], options), records(tmp_path / "b", [], options),
             records(tmp_path / "c", [b"333"], options)]  # fmt: skip
    queue, session = started(files, 2)
    reader = tf.TFRecordReader(options=options)
    key, value = reader.read(queue)
    with tf.control_dependencies([value]):
        counts = [reader.num_records_produced(), reader.num_work_units_completed()]
    found = run_all(session, [key, value, *counts])
    assert [f[1] for f in found] == [b"1", b"22", b"333"] * 2
    assert [f[0].rsplit(b":", 1)[1] for f in found[:3]] == [b"0", b"17", b"0"]
    assert found[-1][2:] == [6, 5]


def test_many_at_once(graph: Any, tmp_path: Path) -> None:
    files = [records(tmp_path / "a", [b"%d" % i for i in range(7)]), records(tmp_path / "b", [b"x"])]
    queue, session = started(files)
    keys, values = tf.TFRecordReader().read_up_to(queue, 5)
    found = run_all(session, [keys, values])
    assert [v.tolist() for _, v in found] == [[b"0", b"1", b"2", b"3", b"4"], [b"5", b"6"], [b"x"]]
    assert all(len(k) == len(v) for k, v in found)
    queue, session = started(files)
    none = tf.TFRecordReader().read_up_to(queue, 0)
    assert [part.tolist() for part in session.run(none)] == [[], []]


@pytest.mark.parametrize("encoding", ["ZLIB", "GZIP"])
def test_a_file_that_is_not_compressed_so(graph: Any, tmp_path: Path, encoding: str) -> None:
    (tmp_path / "plain").write_bytes(b"0123456789")
    queue, session = started([str(tmp_path / "plain")])
    read = tf.FixedLengthRecordReader(5, encoding=encoding).read(queue)
    with pytest.raises(tf.errors.DataLossError, match=f"plain: .*cut short, or no {encoding} file"):
        run_all(session, read)


def test_lines_whole_files_and_fixed_lengths(graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"head\nab\r\n\ncd")
    queue, session = started([str(path)])
    assert [v for _, v in run_all(session, tf.TextLineReader(1).read(queue))] == [b"ab", b"", b"cd"]
    for reader, expected in (
        (tf.WholeFileReader(), [path.read_bytes()]),
        (tf.IdentityReader(), [str(path).encode()]),
        (tf.FixedLengthRecordReader(3, header_bytes=5, footer_bytes=2), [b"ab\r"]),
        (tf.FixedLengthRecordReader(2, hop_bytes=5), [b"he", b"ab", b"cd"]),
    ):
        queue, session = started([str(path)])
        assert [v for _, v in run_all(session, reader.read(queue))] == expected


def test_what_is_wrong(graph: Any, tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    records(path, [b"abc", b"def"])
    path.write_bytes(path.read_bytes()[:-1])
    for name, kind, message in (
        (str(tmp_path / "none"), tf.errors.NotFoundError, "none: No such file"),
        (str(path), tf.errors.DataLossError, "the file ends inside the record that begins at byte 19"),
    ):
        queue = tf.FIFOQueue(5, [tf.string], [[]])
        _, value = tf.TFRecordReader().read(queue)
        with tf.Session() as session:
            session.run([queue.enqueue_many([[name]]), queue.close()][0])
            with pytest.raises(kind, match=message):
                while True:
                    session.run(value)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="must be more than 0"),
    ):
        session.run(tf.FixedLengthRecordReader(0).num_records_produced())


def test_reads_that_wait_go_on_or_end_with_the_queue(graph: Any, tmp_path: Path) -> None:
    path = records(tmp_path / "a", [b"1"])
    queue = tf.FIFOQueue(5, [tf.string], [[]])
    name = tf.placeholder(tf.string, [])
    put, close, value = queue.enqueue([name]), queue.close(), tf.TFRecordReader().read(queue)[1]
    with tf.Session() as session:
        found: list[Any] = []

        def read() -> None:
            try:
                found.append(session.run(value))
            except tf.errors.OutOfRangeError as error:
                found.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(value, options=tf.RunOptions(timeout_in_ms=100))
        session.run(put, {name: path})
        session.run(close)
        for thread in threads:
            thread.join(20)
        assert sorted(type(f).__name__ for f in found) == ["OutOfRangeError", "bytes"]


def test_what_fails_for_a_name_that_was_waited_for_fails_the_read_and_not_who_brought_it(graph: Any) -> None:
    queue = tf.FIFOQueue(1, [tf.string], shapes=[[]])
    value = tf.TFRecordReader().read(queue)[1]
    enqueue = queue.enqueue([b"\xff is no UTF-8"])
    failed: list[BaseException] = []

    def read() -> None:
        try:
            session.run(value)
        except tf.errors.OpError as error:
            failed.append(error)

    with tf.Session() as session:
        reading = threading.Thread(target=read, daemon=True)
        reading.start()
        waits = session._runtime._worker.rendezvous  # type: ignore[union-attr]
        while not any(step._parked for step in list(waits._steps.values())):
            reading.join(0.001)
        session.run(enqueue)
        reading.join(20)
    assert len(failed) == 1 and isinstance(failed[0], tf.errors.InvalidArgumentError)


def test_a_record_that_is_there_needs_no_waiting(graph: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is straight, without a Step, which takes four times as long; one that must wait is a Step."""
    steps, begin = [], Step.__init__
    monkeypatch.setattr(Step, "__init__", lambda self, *args, **more: steps.append(1) or begin(self, *args, **more))
    files = [records(tmp_path / "a", [b"1", b"22"]), records(tmp_path / "b", []), records(tmp_path / "c", [b"333"])]
    names = tf.FIFOQueue(10, [tf.string], [[]])
    reader, out = tf.TFRecordReader(), tf.FIFOQueue(10, [tf.string], [[]])
    put, name = out.enqueue([reader.read(names)[1]]), tf.placeholder(tf.string, [])
    left, pair, more = out.dequeue_many(3), reader.read_up_to(names, 2), names.enqueue([name])
    with tf.Session() as session:
        session.run(names.enqueue_many([files]))
        for _ in range(3):
            session.run(put)
        assert session.run(left).tolist() == [b"1", b"22", b"333"] and not steps
        waiting = threading.Thread(target=session.run, args=(put,))
        waiting.start()
        while not steps:
            time.sleep(0.01)
        session.run(more, {name: files[0]})
        waiting.join(60)
        session.run(more, {name: files[0]})
        assert session.run(pair)[1].tolist() == [b"22"], "of one file only"
        assert session.run(pair)[1].tolist() == [b"1", b"22"]
        assert session.run(reader.num_work_units_completed()) == 4
        Path(files[2]).write_bytes(b"no record at all")
        session.run(more, {name: files[2]})
        with pytest.raises(tf.errors.DataLossError, match="c") as caught:
            session.run(put)
        assert caught.value.op.type == "ReaderReadV2"
        session.run(names.close())
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(put)
