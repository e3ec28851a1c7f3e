"""`sparkflow traffic host:port`: what a task's process has exchanged with each of its peers."""

from __future__ import annotations

import argparse
import json
import sys

from sparkflow.session.server import traffic_of
from sparkflow_runtime.wire.errors import OpError

_COLUMNS = {"sent": "bytes_sent", "received": "bytes_received", "lent": "bytes_lent", "borrowed": "bytes_borrowed"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="HOST:PORT", help="of a tf.train.Server; its secret is in SPARKFLOW_SECRET")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    try:
        found = traffic_of(arguments.address)
    except OpError as error:
        print(f"sparkflow traffic: {error}", file=sys.stderr)
        return 1
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    print(f"{'peer':40} {'frames sent':>12} {'received':>10}" + "".join(f" {c + ', MiB':>14}" for c in _COLUMNS))
    for peer, counts in found.items():
        amounts = "".join(f" {counts[c] / 2**20:14.1f}" for c in _COLUMNS.values())
        print(f"{peer:40} {counts['frames_sent']:12} {counts['frames_received']:10}{amounts}")
    return 0
