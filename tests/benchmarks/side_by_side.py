"""Cases of a benchmark in TensorFlow and in sparkflow by turns, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence


def compare(script: str, python: str, names: Sequence[str], unit: str, *arguments: str) -> None:
    """Print a line of JSON for each case: TensorFlow's times by ours, and both.

    python: the interpreter that has TensorFlow. unit: how `cpu` and `clock` end in what the script prints, as "ms".
    """
    for name in names:
        found = {}
        for library, interpreter in (("tensorflow", python), ("sparkflow", sys.executable)):
            command = [interpreter, script, "--backend", library, "--only", name, *arguments]
            out = subprocess.run(command, capture_output=True, text=True, check=False)
            if out.returncode:
                raise SystemExit(f"{library}, {name}: {out.stderr[-2000:]}")
            found[library] = json.loads(out.stdout.splitlines()[-1])
        own, theirs = found["sparkflow"], found["tensorflow"]
        shares = {f"by_{k}": round(theirs[f"{k}_{unit}"] / own[f"{k}_{unit}"], 2) for k in ("cpu", "clock")}
        numbers = {f"{library}_{k}": found[library][f"{k}_{unit}"] for library in found for k in ("cpu", "clock")}
        print(json.dumps({"name": name, **shares, **numbers}), flush=True)
