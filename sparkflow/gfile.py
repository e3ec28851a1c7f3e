"""tf.gfile: files under their oldest names, with the arguments called as they were."""

from __future__ import annotations

from typing import Any

from sparkflow import files
from sparkflow.files import GFile

Open = FastGFile = GFile


def Exists(filename: Any) -> bool:
    return files.exists(filename)


def IsDirectory(dirname: Any) -> bool:
    return files.isdir(dirname)


def ListDirectory(dirname: Any) -> list[str]:
    """The names in a folder. Raises NotFoundError where there is none."""
    return files.listdir(dirname)


def Glob(filename: Any) -> list[str]:
    """The paths that match, of one pattern or a list of them."""
    return files.glob(filename)


def MkDir(dirname: Any) -> None:
    """A folder that may be there. Raises NotFoundError where the one around it is not, AlreadyExistsError on a file."""
    files.mkdir(dirname)


def MakeDirs(dirname: Any) -> None:
    """With all folders around it; no error where it is there."""
    files.makedirs(dirname)


def Remove(filename: Any) -> None:
    """A file. Raises NotFoundError where there is none."""
    files.remove(filename)


def DeleteRecursively(dirname: Any) -> None:
    """A folder and all that is in it, or a file."""
    files.rmtree(dirname)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Raises AlreadyExistsError where newname is there, unless overwrite."""
    files.rename(oldname, newname, overwrite)


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """A file. Raises AlreadyExistsError where newpath is there, unless overwrite."""
    files.copy(oldpath, newpath, overwrite)


def Stat(filename: Any) -> files.FileStatistics:
    return files.stat(filename)


def Walk(top: Any, in_order: bool = True) -> Any:
    """(folder, names of its folders, names of its files) of everything below, outer folders first if in_order."""
    return files.walk(top, in_order)
