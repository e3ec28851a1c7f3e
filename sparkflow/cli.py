"""The command line: `python -m sparkflow COMMAND`, or `sparkflow COMMAND`.

A command is a module with `add_arguments(parser)` and `run(arguments) -> exit status`; a row of COMMANDS names it.
It is imported only when it is asked for.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """One row. help: what it does, in a line."""

    name: str
    module: str
    help: str


COMMANDS = [
    Command("doctor", "sparkflow.doctor", "say what this machine gives sparkflow, and what slows it down"),
    Command("compile", "sparkflow.compile_command", "build the machine code of all loops for this machine"),
    Command("traffic", "sparkflow.traffic_command", "say what a running task has exchanged with each of its peers"),
    Command("graph", "sparkflow.graph_command", "explain what is done to a graph before it runs"),
    Command("checkpoint", "sparkflow.checkpoint_command", "write a checkpoint in TensorFlow's format"),
    Command("schema", "sparkflow.schema_command", "say which tensors the columns of a table are"),
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status. Exits with 2 on a wrong command line, as argparse does."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser("sparkflow", description="TensorFlow-1 graphs on numpy, Spark and Dask.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in COMMANDS:
        sub = commands.add_parser(command.name, help=command.help, description=command.help)
        if words[:1] == [command.name]:
            import_module(command.module).add_arguments(sub)
    parsed = parser.parse_args(words)
    chosen = next(command for command in COMMANDS if command.name == parsed.command)
    return int(import_module(chosen.module).run(parsed))
