"""`sparkflow graph explain GRAPH.pb --fetches a:0 [--feeds x:0]`: what the passes do to a saved graph."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from sparkflow.session.explain import explain_graph_def
from sparkflow.train.graph_files import read_meta_graph_file
from sparkflow_runtime.wire.errors import InvalidArgumentError, OpError
from sparkflow_runtime.wire.protos import GraphDef
from sparkflow_runtime.wire.sizes import UNKNOWN_SIZE


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "say what the passes do to a graph: nodes before and after, what was folded, merged and fused"
    explain = actions.add_parser("explain", help=about, description=about)
    about_graph = "a GraphDef: binary, or text if .pbtxt; or a checkpoint's .meta file"
    explain.add_argument("graph", type=Path, metavar="GRAPH", help=about_graph)
    explain.add_argument("--fetches", type=_edges, default=[], metavar="a:0,b:1", help="tensors to fetch")
    explain.add_argument("--targets", type=_names, default=[], metavar="op,op", help="operations to run")
    explain.add_argument("--feeds", type=_edges, default=[], metavar="x:0,y:0", help="tensors that are fed")
    about = "what a size that the graph leaves open counts as in the plan of memory (%(default)s)"
    explain.add_argument("--batch", type=int, default=UNKNOWN_SIZE, metavar="N", help=about)
    explain.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    if not arguments.fetches and not arguments.targets:
        print("sparkflow graph explain: give --fetches or --targets", file=sys.stderr)
        return 2
    try:
        graph = read_graph(arguments.graph)
        report = explain_graph_def(graph, arguments.fetches, arguments.feeds, arguments.targets, batch=arguments.batch)
    except (OSError, OpError) as error:
        print(f"sparkflow graph explain: {error}", file=sys.stderr)
        return 1
    print(json.dumps(report.as_dict(), indent=2) if arguments.json else report.text())
    return 0


def read_graph(path: Path) -> GraphDef:
    """A GraphDef from a file. Raises OSError where it cannot be read, InvalidArgumentError where it is none."""
    try:
        if path.suffix == ".meta":
            return read_meta_graph_file(str(path)).graph_def
        if path.suffix == ".pbtxt":
            return text_format.Parse(path.read_text(encoding="utf-8"), GraphDef())
        return GraphDef.FromString(path.read_bytes())
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{path} is no GraphDef: {error}") from None


def _names(text: str) -> list[str]:
    return [name for name in text.split(",") if name]


def _edges(text: str) -> list[str]:
    """'a' is its first output."""
    return [name if ":" in name else f"{name}:0" for name in _names(text)]
