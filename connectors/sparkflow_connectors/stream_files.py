"""The files of a stream's micro-batch that are gone since Spark listed them: it would read the others, and say nothing.

Which files a micro-batch has, Spark's notes of the stream say: `offsets/N` up to which entry of each source's log it
goes, and `sources/I/` has these logs, where every tenth file (`.compact`) repeats those before it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import unquote, urlsplit

from sparkflow_runtime.wire.errors import NotFoundError

_IGNORE = "spark.sql.files.ignoreMissingFiles"
_MOST_NAMED = 3
_AT_ONCE = 16  # of a store that is asked for each

log = logging.getLogger("sparkflow")


def check_there(spark: Any, notes: str, number: int) -> None:
    """Raises NotFoundError where files of micro-batch `number` are gone, unless Spark was told to ignore that."""
    gone = missing(files_of(notes, number), _looking(spark))
    if not gone:
        return
    named = ", ".join(gone[:_MOST_NAMED]) + (", ..." if len(gone) > _MOST_NAMED else "")
    what = f"micro-batch {number}: of its files {len(gone)} are gone since Spark listed them ({named})"
    if str(spark.conf.get(_IGNORE, "false")).lower() == "true":
        log.warning("%s: their rows are passed over", what)
        return
    raise NotFoundError(
        f"{what}, and their rows would be passed over. Put them back and begin the stream again; or set {_IGNORE} to "
        "true before, to go on without them"
    )


def files_of(notes: str, number: int) -> list[str]:
    """The URLs of a micro-batch's files; none where its sources are no files, or notes have another form."""
    ends, begins = _offsets(notes, number), _offsets(notes, number - 1)
    found = list[str]()
    if (begins is None and number) or ends is None:
        return found
    for source, end in ends.items():
        for entry in range((begins or {}).get(source, -1) + 1, end + 1):
            found += list(_entries(os.path.join(notes, "sources", str(source)), entry))
    return found


def _offsets(notes: str, number: int) -> dict[int, int] | None:
    """Up to which entry of its log each source of files is read, by its number; None where that is not noted."""
    found, lines = {}, _lines(os.path.join(notes, "offsets", str(number)))
    if not lines:
        return None
    for source, line in enumerate(lines[1:]):
        with contextlib.suppress(ValueError):  # of another source
            told = json.loads(line)
            if isinstance(told, dict) and isinstance(told.get("logOffset"), int):
                found[source] = told["logOffset"]
    return found


def _entries(folder: str, number: int) -> Iterator[str]:
    for line in _lines(os.path.join(folder, f"{number}.compact")) or _lines(os.path.join(folder, str(number))):
        told = json.loads(line)
        if told.get("batchId") == number:
            yield told["path"]


def _lines(path: str) -> list[str]:
    """What follows the line of the version; nothing where there is no such file."""
    with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
        version, *lines = file.read().splitlines()
        return lines if version == "v1" else []
    return []


def missing(urls: list[str], exists: Callable[[str], bool]) -> list[str]:
    """exists: whether there is a file, of a store that is not mounted."""
    mounted = [url for url in urls if urlsplit(url).scheme == "file"]
    gone = [url for url in mounted if not os.path.exists(unquote(urlsplit(url).path))]
    if others := [url for url in urls if urlsplit(url).scheme != "file"]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            gone += [url for url, there in zip(others, pool.map(exists, others), strict=True) if not there]
    return gone


def _looking(spark: Any) -> Callable[[str], bool]:
    def exists(url: str) -> bool:
        path = spark._jvm.org.apache.hadoop.fs.Path(spark._jvm.java.net.URI(url))
        return bool(path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).exists(path))

    return exists
