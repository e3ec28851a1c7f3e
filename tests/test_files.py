"""tf.gfile and tf.io.gfile."""

from __future__ import annotations

from pathlib import Path

import pytest

import sparkflow as tf


def test_a_file_is_written_and_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt")
    with tf.gfile.GFile(path, "w") as file:
        file.write("one\ntwo\n")
        file.write("über\n")
    with tf.gfile.Open(path) as file:
        assert [line.rstrip() for line in file] == ["one", "two", "über"]
    binary = tf.gfile.FastGFile(path, "rb")
    assert binary.read(3) == b"one" and binary.tell() == 3 and binary.size() == 14
    binary.seek(0)
    assert binary.readline() == b"one\n" and binary.readlines()[0] == b"two\n"
    binary.close()
    with tf.io.gfile.GFile(path, "a") as file:
        file.write("more")
    assert tf.gfile.GFile(path).read().endswith("more")


def test_text_and_bytes_are_written_in_any_mode(tmp_path: Path) -> None:
    """Carriage returns stay in the file, and lines come without them, as TensorFlow's do."""
    path = str(tmp_path / "a.txt")
    with tf.gfile.GFile(path, "w") as file:
        file.write("a\r\n")
        file.write("é\r\n".encode())
        file.write("c\rd\n")
    whole = "a\r\né\r\nc\rd\n"
    assert tf.gfile.GFile(path).read() == whole and tf.gfile.GFile(path, "rb").read() == whole.encode()
    assert list(tf.gfile.GFile(path)) == tf.gfile.GFile(path).readlines() == ["a\n", "é\n", "cd\n"]
    assert list(tf.gfile.GFile(path, "rb"))[1] == "é\n".encode()
    with tf.gfile.GFile(path, "wb") as file:
        file.write("x")
        file.write(b"y")
    assert [line for line in tf.gfile.GFile(path)] == ["xy"]
    with pytest.raises(TypeError), tf.gfile.GFile(path, "w") as file:
        file.write(3)


def test_folders(tmp_path: Path) -> None:
    g, v2 = tf.gfile, tf.io.gfile
    deep = str(tmp_path / "x" / "y")
    g.MakeDirs(deep)
    g.MakeDirs(deep)
    v2.makedirs(deep)
    tf.gfile.GFile(f"{deep}/f.txt", "w").close()
    assert g.Exists(f"{deep}/f.txt") and g.IsDirectory(deep) and not g.IsDirectory(f"{deep}/f.txt")
    assert g.ListDirectory(deep) == ["f.txt"] and g.Glob(f"{tmp_path}/*/y/*.txt") == [f"{deep}/f.txt"]
    g.Copy(f"{deep}/f.txt", f"{deep}/g.txt")
    g.Rename(f"{deep}/g.txt", f"{deep}/h.txt")
    assert [(list(ds), sorted(fs)) for _, ds, fs in g.Walk(str(tmp_path))][-1] == ([], ["f.txt", "h.txt"])
    assert g.Stat(f"{deep}/f.txt").length == 0 and v2.stat(deep).is_directory
    g.Remove(f"{deep}/h.txt")
    g.DeleteRecursively(str(tmp_path / "x"))
    assert not v2.exists(deep) and v2.glob([f"{tmp_path}/*"]) == []


def test_folders_that_are_there_and_files_as_folders(tmp_path: Path) -> None:
    """As in TensorFlow: scripts make their log_dir at each start, and remove whatever was in its place."""
    folder, file = str(tmp_path / "logs"), str(tmp_path / "file")
    for make in (tf.gfile.MkDir, tf.io.gfile.mkdir, tf.gfile.MakeDirs):
        make(folder)
        make(folder)
    for remove in (tf.gfile.DeleteRecursively, tf.io.gfile.rmtree):
        tf.gfile.GFile(file, "w").close()
        remove(file)
        assert not tf.gfile.Exists(file)
        with pytest.raises(tf.errors.NotFoundError, match="file"):
            remove(file)


def test_what_goes_wrong_is_of_tf_errors(tmp_path: Path) -> None:
    missing, here = str(tmp_path / "no"), str(tmp_path / "here")
    tf.gfile.GFile(here, "w").close()
    with pytest.raises(tf.errors.NotFoundError, match="no; No such file"):
        tf.gfile.GFile(missing).read()
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.ListDirectory(missing)
    with pytest.raises(tf.errors.NotFoundError):
        tf.gfile.Remove(missing)
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.gfile.Copy(here, here)
    with pytest.raises(tf.errors.AlreadyExistsError):
        tf.gfile.MkDir(here)
    with pytest.raises(tf.errors.PermissionDeniedError, match="reading"):
        tf.gfile.GFile(here, "w").read()
    with pytest.raises(tf.errors.PermissionDeniedError, match="writing"):
        tf.gfile.GFile(here).write("x")
    with pytest.raises(tf.errors.UnimplementedError, match="gs"):
        tf.gfile.Exists("gs://bucket/x")
    with pytest.raises(tf.errors.InvalidArgumentError, match="mode"):
        tf.gfile.GFile(here, "q")
