"""An op's place in the user's program."""

from __future__ import annotations

import linecache
import sys
from types import SimpleNamespace
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.framework.user_frame import place, retold


def test_decorators_are_not_the_users_program(graph: Any) -> None:
    """Those who build many nodes at once stop the garbage collector meanwhile, by a decorator of contextlib."""
    tf.Variable(1.0)
    before = set(graph.get_operations())
    here = sys._getframe().f_lineno + 1
    tf.train.Saver()
    made = [op.traceback_frame for op in graph.get_operations() if op not in before]
    assert made and set(made) == {(__file__, here)}


CELL = "/tmp/ipykernel_1/4224277078.py"


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel whose third cell has two lines, as IPython keeps them."""
    names = {CELL: ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=names.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    lines = ["w = tf.ones([2])\n", "y = tf.matmul(w, w)\n"]
    monkeypatch.setitem(linecache.cache, CELL, (1, None, lines, CELL))


def test_the_place_is_told_with_what_is_written_there(tmp_path: Any, notebook: None) -> None:
    script = tmp_path / "train.py"
    script.write_text("x = 1\n  y = 2\n")
    assert place(str(script), 2) == f"{script}:2\n\t   y = 2"
    assert place("gone.py", 2) == "gone.py:2"
    assert place(CELL, 2) == "Cell In[3], line 2\n\t   y = tf.matmul(w, w)"


def test_what_another_process_says_of_cells(notebook: None) -> None:
    """It has no such file, and nobody could open it here either."""
    said = (
        "ValueError: boom [in the function of 'PyFunc']\nTraceback (most recent call last):\n"
        f'  File "{CELL}", line 1, in outer\n  File "{CELL}", line 2, in inner\n  File "gone.py", line 3, in last\n'
        f"\t [[node PyFunc (PyFunc) on /job:worker/task:1]]\n\t defined at {CELL}:2\n\t defined at gone.py:7"
    )
    assert retold(said) == (
        "ValueError: boom [in the function of 'PyFunc']\nTraceback (most recent call last):\n"
        "  Cell In[3], line 1, in outer\n    w = tf.ones([2])\n  Cell In[3], line 2, in inner\n"
        '    y = tf.matmul(w, w)\n  File "gone.py", line 3, in last\n'
        "\t [[node PyFunc (PyFunc) on /job:worker/task:1]]\n\t defined at Cell In[3], line 2\n"
        "\t   y = tf.matmul(w, w)\n\t defined at gone.py:7"
    )
    assert retold(retold(said)) == retold(said)
    whole = f"a\n\t defined at {__file__}:1\n\t   what this file has there"
    assert retold(whole) == f'a\n\t defined at {__file__}:1\n\t   """An op\'s place in the user\'s program."""'


def test_a_variable_that_exists_is_told_by_its_cell(graph: Any, notebook: None) -> None:
    """As when a cell is run again."""
    tf.get_variable("w", [1]).op.traceback_frame = (CELL, 1)
    with pytest.raises(
        ValueError, match=r"Originally defined at:\n\n  Cell In\[3\], line 1\n    w = tf.ones\(\[2\]\)$"
    ):
        tf.get_variable("w", [1])


def test_errors_show_the_users_line_and_no_frames_of_the_runtime(graph: Any) -> None:
    """A notebook showed sixty lines of them, and no line of the program but its call of run."""
    x = tf.placeholder(tf.float32, [None, 2])
    bad = tf.matmul(x, x)  # here
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(bad, {x: [[1.0, 2.0]]})
    assert str(caught.value).endswith("\n\t   bad = tf.matmul(x, x)  # here")
    files = [entry.path.name for entry in caught.traceback]
    assert files == ["test_user_frame.py", "session.py"]


def test_errors_of_functions_show_their_lines(graph: Any) -> None:
    """As in TensorFlow. The cause has them too, but it does not travel to another process."""

    def inner(x: Any) -> Any:
        raise ValueError("boom")  # inside

    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError) as caught:
        session.run(tf.py_func(lambda x: inner(x), [1.0], tf.float32))
    text = str(caught.value)
    assert text.startswith("ValueError: boom [in the function of 'PyFunc']\nTraceback (most recent call last):\n  File")
    assert 'in inner\n    raise ValueError("boom")  # inside\n' in text
    assert "script.py" not in text
    assert isinstance(caught.value.__cause__, ValueError)
