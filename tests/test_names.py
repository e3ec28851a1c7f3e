"""Modules that only gather names: tf.math, tf.random, tf.initializers, tf.logging, tf.flags and tf.app."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import sparkflow as tf


def test_gathered_names_are_the_same_functions() -> None:
    assert tf.math.log is tf.log and tf.math.softplus is tf.nn.softplus and tf.math.divide_no_nan is tf.div_no_nan
    assert tf.random.uniform is tf.random_uniform and tf.random.set_random_seed is tf.set_random_seed
    assert tf.initializers.zeros is tf.zeros_initializer and tf.queue.PriorityQueue is tf.PriorityQueue


def test_a_program_with_flags_and_logging() -> None:
    program = """
        import sys
        import sparkflow as tf
        tf.flags.DEFINE_integer("steps", 3, "how many")
        FLAGS = tf.app.flags.FLAGS

        def main(argv):
            tf.logging.set_verbosity(tf.logging.INFO)
            for i in range(FLAGS.steps):
                tf.logging.log_first_n(tf.logging.INFO, "step %d", 2, i)
            tf.logging.debug("not shown")
            sys.exit(0 if argv[1:] == ["--unknown=1", "rest"] else 3)

        if __name__ == "__main__":
            tf.app.run()
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "--steps=5", "--unknown=1", "rest"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line[-6:] for line in done.stderr.splitlines()] == ["step 0", "step 1"], done.stderr


def test_a_programs_help_shows_its_flags(tmp_path: Path) -> None:
    """They counted as sparkflow's own, which --help does not show."""
    program = tmp_path / "train.py"
    program.write_text(
        "import sparkflow as tf\n"
        "tf.flags.DEFINE_integer('steps', 3, 'how many')\n"
        "tf.app.flags.DEFINE_string(flag_name='logdir', default_value=None, docstring='where')\n"
        "tf.app.run(lambda _: tf.flags.DEFINE_integer('steps', 3, 'how many'))\n"
    )
    told = subprocess.run([sys.executable, program, "--help"], capture_output=True, text=True, check=False)
    assert "--steps: how many" in told.stdout and "--logdir: where" in told.stdout, told.stdout + told.stderr
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert f"'steps' is defined twice. First from {program}, second from {program}" in done.stderr


def test_flags_are_read_when_one_is_asked_for() -> None:
    """As by scripts without tf.app.run; arguments that are no flags are left alone."""
    program = """
        import sparkflow as tf
        tf.app.flags.DEFINE_integer(flag_name="steps", default_value=3, docstring="how many")
        tf.flags.DEFINE_boolean("fast", False, "how")
        tf.flags.DEFINE_string("logdir", None, "where")
        FLAGS = tf.flags.FLAGS
        assert "steps" in FLAGS and FLAGS.steps == 5 and FLAGS.fast is True and FLAGS.logdir is None
        FLAGS.logdir = "there"
        assert FLAGS.flag_values_dict()["logdir"] == "there" and FLAGS._parse_flags()["steps"] == 5
        assert FLAGS["steps"].value == 5 and sorted(FLAGS.__flags.items())
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "--steps=5", "--fast", "--unknown=1", "rest"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_misspelled_flag_is_told_by_who_reads_the_arguments() -> None:
    """FLAGS(sys.argv) of one's own knows all there should be, as in TensorFlow; it went on with the default instead."""
    program = """
        import sys
        import sparkflow as tf
        tf.flags.DEFINE_float("learning_rate", 0.1, "how far")
        assert tf.flags.FLAGS(sys.argv, known_only=True)[1:] == sys.argv[1:]
        try:
            tf.flags.FLAGS(sys.argv)
        except tf.flags.UnrecognizedFlagError as error:
            assert "Did you mean: learning_rate" in str(error), error
        else:
            sys.exit("no error")
    """
    command = [sys.executable, "-c", textwrap.dedent(program), "--learning_rat=0.5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
