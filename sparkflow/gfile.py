"""tf.gfile: files under their oldest names."""

from __future__ import annotations

from typing import Any

from sparkflow.files import GFile, walk
from sparkflow.files import copy as Copy
from sparkflow.files import exists as Exists
from sparkflow.files import glob as Glob
from sparkflow.files import isdir as IsDirectory
from sparkflow.files import listdir as ListDirectory
from sparkflow.files import makedirs as MakeDirs
from sparkflow.files import mkdir as MkDir
from sparkflow.files import remove as Remove
from sparkflow.files import rename as Rename
from sparkflow.files import rmtree as DeleteRecursively
from sparkflow.files import stat as Stat

Open = FastGFile = GFile


def Walk(top: Any, in_order: bool = True) -> Any:
    """(folder, names of its folders, names of its files) of everything below, outer folders first if in_order."""
    return walk(top, in_order)
