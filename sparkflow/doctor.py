"""`sparkflow doctor`: what the runtime and the connectors find on this machine, and warnings with the next step."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from sparkflow.session.environment import Finding, findings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measure", action="store_true", help="also measure products of matrices (a few seconds)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of text")


def run(arguments: argparse.Namespace) -> int:
    """Prints the findings; the exit status is 0 whether or not there are warnings."""
    found = [*findings(arguments.measure), *_engines()]
    for finding in found:
        print(json.dumps(finding._asdict()) if arguments.json else f"{finding.name + ':':16} {finding.value}")
    if not arguments.json:
        warnings = [f"\nwarning: {finding.name}: {finding.warning}" for finding in found if finding.warning]
        print(*(warnings or ["\nNo warnings."]), sep="")
    return 0


def _engines() -> Iterator[Finding]:
    for package, extra in (("pyspark", "spark"), ("dask", "dask"), ("distributed", "dask")):
        try:
            yield Finding(package, version(package))
        except PackageNotFoundError:
            yield Finding(package, f"not installed (the extra `{extra}` brings it)")
    yield _java()


def _java() -> Finding:
    """As Spark will find it; the environment stays as it is."""
    from sparkflow_connectors.java import ensure_java

    before = os.environ.get("JAVA_HOME")
    try:
        home = ensure_java()
    except RuntimeError as error:
        return Finding("Java", "none that Spark can use", str(error))
    finally:
        if before is None:
            os.environ.pop("JAVA_HOME", None)
        else:
            os.environ["JAVA_HOME"] = before
    return Finding("Java", f"{home} (found by sparkflow)" if home else f"the machine's ({before or 'on PATH'})")
