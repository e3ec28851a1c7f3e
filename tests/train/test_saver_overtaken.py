"""A chief that was stopped while another took its place: what the other saved stays, and is what the next one finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.framework.graph import Graph

OTHER = """
import sys
import sparkflow as tf

path, first, *steps = sys.argv[1:]
v = tf.Variable(-1.0, name="v")
saver = tf.train.Saver(max_to_keep=3)
with tf.Session() as session:
    saver.restore(session, path + "-" + first)
    for step in steps:
        saver.save(session, path, int(step), write_meta_graph=False)
"""


class Chief:
    """Saves its step as the value of `v`, another process a value of its own."""

    def __init__(self, folder: Path, keep: int = 3):
        self.folder, self.path = str(folder), str(folder / "model.ckpt")
        self.v = tf.Variable(0.0, name="v")
        self.saver, self.session = tf.train.Saver(max_to_keep=keep), tf.Session()

    def save(self, *steps: int) -> None:
        for step in steps:
            self.v.load(float(step), self.session)
            self.saver.save(self.session, self.path, step, write_meta_graph=False)

    def other(self, first: int, *steps: int) -> None:
        self.save(first)
        command = [sys.executable, "-c", OTHER, self.path, *map(str, (first, *steps))]
        subprocess.run(command, check=True, timeout=120)

    def held(self) -> dict[int, float]:
        found = sorted(int(p.stem.rpartition("-")[2]) for p in Path(self.folder).glob("*.index"))
        return {step: float(tf.train.load_variable(f"{self.path}-{step}", "v")) for step in found}

    def newest(self) -> str | None:
        return tf.train.latest_checkpoint(self.folder)


@pytest.fixture
def chief(graph: Graph, tmp_path: Path) -> Chief:
    return Chief(tmp_path)


def test_it_records_nothing_until_it_is_ahead(chief: Chief, caplog: pytest.LogCaptureFixture) -> None:
    chief.other(1, 3, 5)
    chief.save(2, 3, 4, 5)
    assert chief.newest() == chief.path + "-5"
    assert chief.held() == {1: 1.0, 2: 2.0, 3: 1.0, 4: 4.0, 5: 1.0}, "3 and 5 are the other's"
    told = [record.getMessage() for record in caplog.records if "Saver: another process" in record.getMessage()]
    assert len(told) == 4 and "model.ckpt-5 since" in told[0] and "model.ckpt-2, of no later step, is not" in told[0]
    assert "is left as the other saved it" in told[1]
    chief.save(6)
    assert chief.newest() == chief.path + "-6"


def test_it_removes_nothing_that_the_other_names(chief: Chief) -> None:
    chief.save(0)
    chief.other(1, 1, 5)
    chief.save(2, 3, 4)
    assert chief.held() == {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0, 5: 1.0}, "0 went in its turn, and so would 1 have"


def test_one_that_is_stopped_in_the_middle_of_a_save(chief: Chief, monkeypatch: pytest.MonkeyPatch) -> None:
    chief.save(1)
    run = chief.session.run

    def stopped(fetches: object, *args: object) -> object:
        saved = run(fetches, *args)
        if fetches == chief.saver.as_saver_def().save_tensor_name:
            monkeypatch.undo()
            subprocess.run([sys.executable, "-c", OTHER, chief.path, "1", "3"], check=True, timeout=120)
        return saved

    monkeypatch.setattr(chief.session, "run", stopped)
    chief.save(2)
    assert chief.newest() == chief.path + "-3" and chief.held() == {1: 1.0, 2: 2.0, 3: 1.0}


def test_a_process_that_begins_at_an_earlier_step_may_save(chief: Chief) -> None:
    chief.save(9)
    chief.other(1, 2)
    assert chief.newest() == chief.path + "-2", "the other never wrote the state file before"


@pytest.mark.parametrize("how", ["a new Saver", "restored"])
def test_who_goes_on_from_there_may_go_back(chief: Chief, how: str, caplog: pytest.LogCaptureFixture) -> None:
    """Spark keeps the processes of its workers: a later training may have its chief in one of an earlier training."""
    chief.other(1, 5, 9)
    if how == "restored":
        chief.saver.restore(chief.session, chief.path + "-5")
    else:
        chief.saver = tf.train.Saver()
    chief.save(6)
    assert chief.newest() == chief.path + "-6" and "another process" not in caplog.text
    chief.save(7)
    assert chief.newest() == chief.path + "-7"


def test_names_without_a_step_are_written_as_ever(chief: Chief) -> None:
    chief.other(1, 5)
    np.testing.assert_equal(chief.saver.save(chief.session, chief.path), chief.path)
    assert chief.newest() == chief.path
