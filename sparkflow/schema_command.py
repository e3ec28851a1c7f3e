"""`sparkflow schema PATH`, `sparkflow schema --spark TABLE`: which tensors the columns of a table are."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from sparkflow_runtime.wire.errors import OpError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", nargs="?", metavar="PATH", help="a file or folder: parquet, Arrow, CSV, TFRecord ...")
    parser.add_argument("--spark", metavar="TABLE", help="a table that Spark knows, or a SELECT in quotes")
    parser.add_argument("--format", default="", metavar="FORMAT", help="of PATH, where its names do not tell")
    about = "how a column is read, NAME:KEY=VALUE,..: tags:kind=sparse,length=8 or image:cast=uint8,shape=28x28"
    parser.add_argument("--column", action="append", default=[], metavar="COLUMN", help=about)
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    from sparkflow_connectors import schema_report

    if (arguments.path is None) == (arguments.spark is None):
        print("sparkflow schema: give a PATH or --spark", file=sys.stderr)
        return 2
    try:
        columns = {column.name: column for column in map(schema_report.parsed, arguments.column)}
        if arguments.spark is not None:
            schema = schema_report.schema_of_spark(arguments.spark)
        else:
            schema = schema_report.schema_of_path(arguments.path, arguments.format)
        lines = schema_report.report(schema, columns)
    except (OSError, OpError, TypeError) as error:
        print(f"sparkflow schema: {error}", file=sys.stderr)
        return 1
    print(json.dumps([asdict(line) for line in lines], indent=2) if arguments.json else schema_report.text(lines))
    return 0
