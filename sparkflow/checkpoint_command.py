"""`sparkflow checkpoint convert PREFIX OUT --to tensorflow`: a checkpoint, or a SavedModel with its variables, in the
format of another library."""

from __future__ import annotations

import argparse
import sys

from sparkflow_runtime.wire.errors import OpError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    about = "write a checkpoint or a SavedModel in the format of another library; sparkflow reads both"
    convert = actions.add_parser("convert", help=about, description=about)
    convert.add_argument(
        "prefix", metavar="PREFIX", help="the checkpoint, or a folder: the SavedModel, or the newest checkpoint"
    )
    convert.add_argument("out", metavar="OUT", help="the prefix of the new one, or the folder")
    convert.add_argument("--to", choices=["tensorflow"], required=True, help="whose format: TensorFlow's V2")


def run(arguments: argparse.Namespace) -> int:
    from sparkflow.saved_model import contains_saved_model
    from sparkflow.saved_model import convert as saved_models
    from sparkflow.train.checkpoint_convert import to_tensorflow
    from sparkflow.train.checkpoint_state import prefix_of

    try:
        if contains_saved_model(arguments.prefix):
            prefix, count = arguments.prefix, saved_models.to_tensorflow(arguments.prefix, arguments.out)
        else:
            prefix = prefix_of(arguments.prefix)
            count = to_tensorflow(prefix, arguments.out)
    except (OSError, OpError, ValueError) as error:
        print(f"sparkflow checkpoint convert: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out}: {count} tensors of {prefix}")
    return 0
