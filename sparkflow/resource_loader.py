"""tf.resource_loader: files that lie beside the module that asks for them."""

from __future__ import annotations

import os
import sys

from sparkflow.files import GFile


def get_data_files_path() -> str:
    """The folder of the module that calls this."""
    return os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))


def get_path_to_datafile(path: str) -> str:
    """path, taken from the folder of the module that calls this."""
    return os.path.join(os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename)), path)


def load_resource(path: str) -> bytes:
    """The bytes of a file in the folder of the module that calls this. Raises NotFoundError where there is none."""
    folder = os.path.dirname(os.path.abspath(sys._getframe(1).f_code.co_filename))
    with GFile(os.path.join(folder, path), "rb") as file:
        return file.read()


def readahead_file_path(path: str, readahead: str = "128M") -> str:
    return path
