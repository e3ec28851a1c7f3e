"""tf.contrib.learn's Experiment, as the samples of 2017 run it."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

LEARN = tf.contrib.learn
X = np.random.default_rng(0).random((64, 2)).astype(np.float32)


def input_fn() -> Any:
    return tf.data.Dataset.from_tensors(({"x": X}, X.sum(1, keepdims=True))).repeat()


def experiment_fn(run_config: Any, hparams: Any) -> Any:
    columns = [tf.feature_column.numeric_column("x", shape=(2,))]
    estimator = tf.estimator.LinearRegressor(columns, config=run_config)
    receiver = tf.estimator.export.build_raw_serving_input_receiver_fn({"x": tf.placeholder(tf.float32, [None, 2])})
    return LEARN.Experiment(
        estimator, input_fn, input_fn, train_steps=hparams.steps, eval_steps=2, eval_delay_secs=0,
        export_strategies=[LEARN.make_export_strategy(receiver, exports_to_keep=1)],
    )  # fmt: skip


def config(folder: pathlib.Path) -> Any:
    return LEARN.RunConfig(model_dir=str(folder), save_checkpoints_steps=10)


def test_run(tmp_path: pathlib.Path) -> None:
    hparams = tf.contrib.training.HParams(steps=20)
    found, exports = LEARN.learn_runner.run(experiment_fn, run_config=config(tmp_path), hparams=hparams)
    assert found["global_step"] == 20 and len(exports) == 1 and b"/export/Servo/" in exports[0]
    hparams.steps = 25
    LEARN.learn_runner.run(experiment_fn, run_config=config(tmp_path), schedule="train", hparams=hparams)
    found = LEARN.learn_runner.run(experiment_fn, run_config=config(tmp_path), schedule="evaluate", hparams=hparams)
    assert found["global_step"] == 25


def test_parts(tmp_path: pathlib.Path) -> None:
    class Counts(tf.train.SessionRunHook):
        steps = 0

        def after_run(self, run_context: Any, run_values: Any) -> None:
            self.steps += 1

    made = experiment_fn(config(tmp_path), tf.contrib.training.HParams(steps=3))
    counts = Counts()
    made.extend_train_hooks([counts])
    (exporter,) = made.reset_export_strategies()
    made.train()
    assert counts.steps == made.train_steps == 3 and made.eval_steps == 2
    found, exports = made.test()
    assert found["global_step"] == 4 and exports == []
    assert made.reset_export_strategies(lambda: exporter) == []
    _, exports = made.test()
    assert len(exports) == 1 and os.path.isdir(exports[0])
    assert os.path.isdir(tmp_path / "eval_one_pass")


def test_of_contrib_learns_own_estimators(tmp_path: pathlib.Path) -> None:
    """Whose evaluate takes arrays first."""

    def make(output_dir: str) -> Any:
        estimator = LEARN.LinearRegressor([tf.contrib.layers.real_valued_column("x", 2)], output_dir)
        return LEARN.Experiment(estimator, input_fn, input_fn, train_steps=5, eval_steps=1)

    found, _ = LEARN.learn_runner.run(make, output_dir=str(tmp_path))
    assert found["global_step"] == 5


def test_refusals(tmp_path: pathlib.Path) -> None:
    run, hparams = LEARN.learn_runner.run, tf.contrib.training.HParams(steps=1)
    with pytest.raises(ValueError, match="one of `output_dir` and `run_config`"):
        run(experiment_fn)
    with pytest.raises(ValueError, match="`hparams` as None"):
        run(experiment_fn, output_dir=str(tmp_path), hparams=hparams)
    with pytest.raises(ValueError, match="model directory `model_dir`"):
        run(experiment_fn, run_config=LEARN.RunConfig(), hparams=hparams)
    with pytest.raises(ValueError, match="non-existent task evaluation; there are train, train_and_evaluate"):
        run(experiment_fn, run_config=config(tmp_path), schedule="evaluation", hparams=hparams)
    with pytest.raises(TypeError, match="did not return an Experiment, got str"):
        run(lambda folder: folder, output_dir=str(tmp_path))
    estimator = experiment_fn(config(tmp_path), hparams).estimator
    with pytest.raises(ValueError, match="use `eval_metric_ops`"):
        LEARN.Experiment(estimator, input_fn, input_fn, eval_metrics={"a": 1})
    with pytest.raises(ValueError, match="must be an Estimator, got function"):
        LEARN.Experiment(input_fn, input_fn, input_fn)
    with pytest.raises(ValueError, match="set TF_CONFIG"):
        experiment_fn(config(tmp_path), hparams).run_std_server()


def test_imports_of_scripts() -> None:
    program = """
        import sparkflow
        sparkflow.install_as_tensorflow()
        from tensorflow.contrib.learn import Experiment, learn_runner
        from tensorflow.contrib.learn.python.learn import learn_runner as other
        from tensorflow.contrib.learn.python.learn.estimators import run_config
        from tensorflow.contrib.learn.python.learn.utils import saved_model_export_utils
        from tensorflow.contrib.factorization.python.ops import factorization_ops
        import tensorflow as tf

        assert other.run is learn_runner.run and run_config.RunConfig is tf.contrib.learn.RunConfig
        assert saved_model_export_utils.make_export_strategy is tf.contrib.learn.make_export_strategy
        assert factorization_ops.WALSModel is tf.contrib.factorization.WALSModel
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
