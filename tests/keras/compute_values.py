"""Computes values.json and training_values.json by TensorFlow: `python -m tests.keras.compute_values`, where
tensorflow-cpu and tf-keras are installed: that is Keras 2, which `make oracle` does without."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from tests.keras import layer_cases, model_programs, more_programs, shaped_programs, training_programs

VALUES = Path(__file__).parent / "values.json"
TRAINED = Path(__file__).parent / "training_values.json"


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, list):
        return [_rounded(v) for v in value]
    return {k: _rounded(v) for k, v in value.items()} if isinstance(value, dict) else value


def main() -> None:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    found = {name: layer_cases.run(tf, tf.keras, case) for name, case in layer_cases.CASES.items()}
    found |= {f"program {name}": model_programs.run(tf, tf.keras, name) for name in model_programs.PROGRAMS}
    _write(VALUES, found)
    assert more_programs.program is shaped_programs.program  # whose programs are among those of training_programs
    _write(TRAINED, {name: training_programs.run(tf, tf.keras, name) for name in training_programs.PROGRAMS})


def _write(path: Path, found: dict[str, Any]) -> None:
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(_rounded(value))}" for name, value in found.items())
    path.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
