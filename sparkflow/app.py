"""tf.app: runs a program whose flags are tf.flags."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from absl import app as _app

from sparkflow import flags


def run(main: Callable[[Sequence[str]], Any] | None = None, argv: Sequence[str] | None = None) -> None:
    """Read the flags, call `main(argv)` (of the module that runs, by default) and exit with what it returns.

    Arguments that are no flags are left to main, as TensorFlow leaves them.
    """
    _app.run(
        main or sys.modules["__main__"].main,
        argv=list(argv) if argv else None,
        flags_parser=lambda args: flags.FLAGS(args, known_only=True),
    )
