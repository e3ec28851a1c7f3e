"""`sparkflow compile`: the machine code of all loops, and the bytecode of all modules, before a program needs them.

Without it the first programs on a machine build what they use beside their steps, which are slower meanwhile. Run it
where an image or an environment for a cluster is made, on a processor of the cluster's kind, as the user who may write
there: the code lies beside the package, and goes along. Where Python may not keep bytecode (PYTHONDONTWRITEBYTECODE, as
in many images) and pip did not make it (a checkout), every task of a job else compiles every module anew, for 0.4 s.
"""

from __future__ import annotations

import argparse
import sys
import time
from compileall import compile_dir
from importlib.util import find_spec

from sparkflow.session.environment import build, folder_to_keep_in, missing, processors


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int, metavar="N", help="processes at once (default: one a processor)")


def run(arguments: argparse.Namespace) -> int:
    """Prints how many loops were built, and where they lie; the exit status is 1 where one could not be."""
    jobs = processors() if arguments.jobs is None else arguments.jobs
    if jobs < 1:
        return _failed(f"--jobs must be positive, got {jobs}")
    folder = folder_to_keep_in()
    if folder is None:
        return _failed("no folder can be written to; let NUMBA_CACHE_DIR name one")
    _keep_bytecode(jobs)
    names = missing()
    if not names:
        print(f"Every loop is there already, in {folder} or beside the package")
        return 0
    often = "once for a machine; a minute or two, more where others are at work"
    print(f"Building loops ({len(names)}) with {jobs} processes: {often} ...", flush=True)
    begin = time.monotonic()
    said = build(names, jobs)
    left = missing()
    print(f"Loops built: {len(names) - len(left)}, in {time.monotonic() - begin:.0f} s, in {folder}")
    return _failed(f"{len(left)} could not be built: {', '.join(left)}\n{said}") if left else 0


def _keep_bytecode(jobs: int) -> None:
    """Of the packages, as far as their folders can be written to: whoever imports them elsewhere does without."""
    for package in ("sparkflow", "sparkflow_runtime", "sparkflow_connectors"):
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
            compile_dir(folder, quiet=2, workers=jobs)


def _failed(message: str) -> int:
    print(f"sparkflow compile: {message}", file=sys.stderr)
    return 1
