"""docs/api.md lists every name that 180 public TensorFlow 1 programs use, with its state. This test writes it anew
where SPARKFLOW_WRITE_DOCS is set, and otherwise demands that it is up to date."""

from __future__ import annotations

import os
from pathlib import Path

import sparkflow as tf

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "api.md"

REFUSED = {  # names that are there to say why not
    "tf.contrib.eager": "no eager mode: asking for it raises UnimplementedError",
    "tf.enable_eager_execution": "no eager mode: raises UnimplementedError",
}
NO_NAME = {  # what texts beside programs say, and TensorFlow has not
    "tf.placeholders": "a plural in a text",
    "tf.Operations": "a plural in a text",
    "tf.Variables": "a plural in a text",
}
PARTLY = {
    "tf.data.Dataset.from_tensor_slices": "runs in the process that made it, not as nodes that travel",
    "tf.data.Dataset.from_generator": "runs in the process that made it, not as nodes that travel",
    "tf.data.TFRecordDataset": "runs in the process that made it, not as nodes that travel",
    "tf.data.TextLineDataset": "runs in the process that made it, not as nodes that travel",
    "tf.data.experimental.CsvDataset": "runs in the process that made it, not as nodes that travel",
    "tf.image.decode_jpeg": "needs Pillow",
}

HEAD = """# What of TensorFlow 1 is there

Every name that 180 public TensorFlow 1 programs and notebooks use, how many of them use it, and what
`import sparkflow as tf` makes of it. {works} of {all} work. Written by
`SPARKFLOW_WRITE_DOCS=1 pytest tests/test_api_usage.py`.

| name | programs | state |
|---|---|---|
"""


def usage() -> list[tuple[int, str]]:
    lines = (ROOT / "tests" / "api-usage.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return [(int(count), name) for count, name in rows]


def exists(name: str) -> bool:
    found: object = tf
    for part in name.split(".")[1:]:
        try:
            found = getattr(found, part)
        except AttributeError:
            return False
    return True


def state(name: str) -> str:
    if name in NO_NAME:
        return f"no name of TensorFlow: {NO_NAME[name]}"
    if not exists(name):
        return "missing"
    return f"refused: {REFUSED[name]}" if name in REFUSED else f"works; {PARTLY[name]}" if name in PARTLY else "works"


def test_the_page_is_up_to_date() -> None:
    states = [(name, count, state(name)) for count, name in usage()]
    works = sum(text.startswith("works") for *_, text in states)
    rows = "".join(f"| `{name}` | {count} | {text} |\n" for name, count, text in states)
    page = HEAD.format(works=works, all=len(states)) + rows
    if os.environ.get("SPARKFLOW_WRITE_DOCS"):
        PAGE.write_text(page)
    assert PAGE.read_text() == page, "run SPARKFLOW_WRITE_DOCS=1 pytest tests/test_api_usage.py"
    assert works >= 200


def test_what_two_programs_use_is_there() -> None:
    lacking = [name for count, name in usage() if count > 1 and state(name) == "missing"]
    assert lacking == []
