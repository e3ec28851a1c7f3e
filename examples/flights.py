"""Will this flight leave 15 minutes late or more? Wide & deep, trained in Spark, in Dask, or in local processes.

    spark-submit examples/flights.py --cluster spark --workers 2 --ps 1 --sync
    python examples/flights.py --cluster dask --async
    python examples/flights.py --cluster local --report flights.json
    python examples/flights.py --cluster local --strategy all_reduce

The random split puts flights of one day on both sides, so the score tells how well the state of a known day is filled
in (which crosses of the day with airport, carrier and hour learn), not how well a future day is forecast.
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

import flights_data as data
import numpy as np
import pyarrow as pa

import sparkflow as tf
from sparkflow.distribute import DistributedOptimizer

# table: (columns that it crosses, rows, on the deep side, on the wide side)
TABLES: dict[str, tuple[tuple[str, ...], int, bool, bool]] = {
    "month": (("month",), 13, False, True),
    "day_of_year": (("day_of_year",), 366, True, False),
    "day_of_week": (("day_of_week",), 7, True, True),
    "hour": (("hour",), 25, True, True),
    "carrier": (("carrier",), 16, True, True),
    "origin": (("origin",), 3, True, True),
    "dest": (("dest",), 105, True, True),
    "tailnum": (("tailnum",), 4044, True, True),
    "carrier_flight": (("carrier", "flight"), 8192, True, True),
    "carrier_origin_hour": (("carrier", "origin", "hour"), 2048, True, True),
    "carrier_origin_dest": (("carrier", "origin", "dest"), 4096, True, True),
    "day_origin": (("day_of_year", "origin"), 2048, True, True),
    "day_hour": (("day_of_year", "hour"), 16384, True, False),
    "day_origin_block": (("day_of_year", "origin", "block"), 16384, True, False),
    "day_carrier": (("day_of_year", "carrier"), 8192, True, True),
    "day_carrier_origin": (("day_of_year", "carrier", "origin"), 16384, False, True),
    "day_dest": (("day_of_year", "dest"), 65536, False, True),
    "day_dest_block": (("day_of_year", "dest", "block"), 131072, False, True),
    "day_tailnum": (("day_of_year", "tailnum"), 262144, False, True),
}
EMBEDDING = 8
HIDDEN = (64, 32)
DAYS_BEFORE_MONTH = (0, 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334)


def cross(columns: Sequence[Any], buckets: int) -> Any:
    """A bucket for each combination of integer columns, the same on every machine."""
    h: Any = tf.zeros_like(columns[0])
    for column in columns:
        h = tf.floormod(h * 1000003 + column + 1, 2147483647)
    return tf.floormod(h, buckets)


def calendar(features: dict[str, Any]) -> dict[str, Any]:
    """The integer columns that the tables are indexed by, and times in minutes."""
    day = tf.gather(tf.constant(DAYS_BEFORE_MONTH, tf.int64), features["month"]) + features["day"] - 1
    departure, arrival = features["sched_dep_time"], features["sched_arr_time"]
    hour = departure // 100
    minute = hour * 60 + departure % 100
    until = (arrival // 100) * 60 + arrival % 100
    derived = {"day_of_year": day, "day_of_week": (day + 1) % 7, "hour": hour, "minute": minute, "block": minute // 180}
    return {**features, **derived, "arrival": until, "duration": (until - minute) % 1440}


def numbers(c: dict[str, Any]) -> Any:
    """[batch, 8] float32: the times of day and year as points on a circle, durations and distance scaled to about 1."""

    def turn(column: str, period: float) -> Any:
        return tf.cast(c[column], tf.float32) * (2 * math.pi / period)

    clock, year = turn("minute", 1440), turn("day_of_year", 365)
    scaled = [
        tf.cast(c["minute"], tf.float32) / 1440 - 0.5,
        tf.cast(c["arrival"], tf.float32) / 1440 - 0.5,
        tf.cast(c["duration"], tf.float32) / 600 - 0.4,
        tf.log(c["distance"]) / 2 - 3.4,
    ]
    return tf.stack([*scaled, tf.sin(clock), tf.cos(clock), tf.sin(year), tf.cos(year)], axis=1)


def logits_of(features: dict[str, Any]) -> Any:
    """The wide and the deep side added up: [batch]."""
    columns = calendar(features)
    ids = {
        t: columns[c[0]] if len(c) == 1 else cross([columns[n] for n in c], rows)
        for t, (c, rows, _, _) in TABLES.items()
    }
    with tf.variable_scope("wide"):
        parts = [
            tf.nn.embedding_lookup(tf.get_variable(t, [rows, 1], initializer=tf.zeros_initializer()), ids[t])
            for t, (_, rows, _, wide) in TABLES.items()
            if wide
        ]
        wide_sum = tf.add_n(parts)
    with tf.variable_scope("deep"):
        small = tf.random_uniform_initializer(-0.05, 0.05)
        rows_of = [
            tf.nn.embedding_lookup(tf.get_variable(t, [rows, EMBEDDING], initializer=small), ids[t])
            for t, (_, rows, deep, _) in TABLES.items()
            if deep
        ]
        x = tf.concat([*rows_of, numbers(columns)], axis=1)
        for i, size in enumerate((*HIDDEN, 1)):
            w = tf.get_variable(f"w{i}", [int(x.get_shape()[1]), size], initializer=tf.glorot_uniform_initializer())
            start = 0.0 if size > 1 else -1.25  # log(p / (1 - p)) of the 22 % that are late
            x = tf.nn.bias_add(
                tf.matmul(x, w), tf.get_variable(f"b{i}", [size], initializer=tf.constant_initializer(start))
            )
            x = tf.nn.relu(x) if size > 1 else x
    return tf.squeeze(x + wide_sum, axis=1)


class WideAndDeepOptimizer(tf.train.Optimizer):
    """FTRL for the variables under `wide/`, Adagrad for the others."""

    def __init__(self) -> None:
        super().__init__(use_locking=False, name="WideAndDeep")
        self._sides = {
            True: tf.train.FtrlOptimizer(0.1, initial_accumulator_value=1.0, l2_regularization_strength=3.0),
            False: tf.train.AdagradOptimizer(0.05, initial_accumulator_value=0.1),
        }

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        pairs = list(grads_and_vars)
        updates = [
            optimizer.apply_gradients([(g, v) for g, v in pairs if v.op.name.startswith("wide/") is wide])
            for wide, optimizer in self._sides.items()
        ]
        if global_step is None:
            return tf.group(*updates, name=name)
        with tf.control_dependencies(updates), tf.colocate_with(global_step):
            return tf.assign_add(global_step, 1, name=name).op

    def variables(self) -> list[Any]:
        return [v for optimizer in self._sides.values() for v in optimizer.variables()]


def model_fn(features: dict[str, Any], labels: Any, mode: str, params: dict[str, Any], config: Any) -> Any:
    """The same function for training, evaluation and prediction, in every cluster."""
    logits = logits_of(features)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"probability": tf.sigmoid(logits)})
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    mean = tf.reduce_mean(losses)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=mean)
    optimizer: Any = WideAndDeepOptimizer()
    hooks = []
    if params["strategy"] == "all_reduce":
        optimizer = DistributedOptimizer(optimizer, config.num_worker_replicas, timeout_s=60)
    elif params["sync"]:
        optimizer = tf.train.SyncReplicasOptimizer(
            optimizer, replicas_to_aggregate=config.num_worker_replicas, total_num_replicas=config.num_worker_replicas
        )
        hooks = [optimizer.make_session_run_hook(config.is_chief, num_tokens=0)]
    # The sum, not the mean: a row of a table sees few examples of a batch, and its step should not shrink with the
    # batch.
    train_op = optimizer.minimize(tf.reduce_sum(losses), global_step=tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=mean, train_op=train_op, training_hooks=hooks)


# ---------------------------------------------------------------------------- the three clusters


def arguments() -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cluster", choices=["local", "spark", "dask"], default="local")
    p.add_argument("--workers", type=_count, default=2)
    p.add_argument("--ps", type=_count, default=1, help="parameter servers, beside the first workers")
    how = p.add_mutually_exclusive_group()
    how.add_argument("--sync", dest="sync", action="store_true", default=True, help="workers in step (default)")
    how.add_argument("--async", dest="sync", action="store_false", help="every worker at its own pace")
    p.add_argument(
        "--strategy", choices=["ps", "all_reduce"], default="ps", help="all_reduce: every worker has all variables"
    )
    p.add_argument(
        "--carried-as", choices=["float32", "bfloat16", "float16"], default="float32", help="how float32 travels"
    )
    p.add_argument("--epochs", type=_count, default=3)
    p.add_argument("--batch-size", type=_count, default=1024, help="examples a worker and step")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--checkpoint-dir", help="resume from here, or begin here (default: a new folder under runs/)")
    p.add_argument("--report", type=_writable, help="write the figures to this JSON file")
    p.add_argument("--master", help="Spark master, when not started by spark-submit (default local[workers])")
    p.add_argument("--scheduler", help="address of a running Dask scheduler (default: a LocalCluster)")
    return p.parse_args()


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text!r}")
    return int(text)


def _writable(path: str) -> str:
    """`path`, found out now and not after the training. Its folder is made."""
    try:
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        open(path, "a").close()
    except OSError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return path


def job_options(args: argparse.Namespace) -> dict[str, Any]:
    return {
        "features": data.FEATURES,
        "label": data.LABEL,
        "partition_by": "row",
        "order_by": "row",
        "workers": args.workers,
        "ps": args.ps,
        "sync": args.sync,
        "strategy": args.strategy,
        "carried_as": args.carried_as,
        "epochs": args.epochs,
        "batch_size": args.batch_size,
        "seed": args.seed,
        "checkpoint_dir": args.checkpoint_dir,
        "params": {"sync": args.sync, "strategy": args.strategy},
    }


def run_local(args: argparse.Namespace, train: pa.Table, test: pa.Table) -> tuple[Any, pa.Table]:
    model = tf.local.train(train, model_fn, **job_options(args))
    return model, model.transform(test)


def run_spark(args: argparse.Namespace, train: pa.Table, test: pa.Table) -> tuple[Any, pa.Table]:
    under_submit = "PYSPARK_GATEWAY_PORT" in os.environ
    spark = tf.spark.session("flights", None if under_submit else args.master or f"local[{args.workers}]")
    try:
        model = tf.spark.train(spark.createDataFrame(train), model_fn, **job_options(args))
        return model, model.transform(spark.createDataFrame(test)).toArrow()
    finally:
        spark.stop()


def run_dask(args: argparse.Namespace, train: pa.Table, test: pa.Table) -> tuple[Any, pa.Table]:
    import dask
    import dask.dataframe as dd
    from distributed import Client, LocalCluster

    logging.getLogger("distributed").setLevel(logging.WARNING)
    dask.config.set({"distributed.admin.large-graph-warning-threshold": "1GB"})  # the table travels in the graph here
    cluster = args.scheduler or LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=":0")
    with Client(cluster) as client:
        try:
            frame, held = (dd.from_pandas(t.to_pandas(), npartitions=args.workers) for t in (train, test))
            model = tf.dask.train(frame, model_fn, client=client, **job_options(args))
            return model, pa.Table.from_pandas(model.transform(held).compute(), preserve_index=False)
        finally:
            if not args.scheduler:
                cluster.close()


def main() -> None:
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(message)s")
    logging.getLogger("sparkflow").setLevel(logging.INFO)
    args = arguments()
    mode = "sync" if args.sync else "async"
    stamp = time.strftime("%Y%m%d-%H%M%S")
    args.checkpoint_dir = os.path.abspath(args.checkpoint_dir or f"runs/flights-{args.cluster}-{mode}-{stamp}")
    train, test = data.load()
    run = {"local": run_local, "spark": run_spark, "dask": run_dask}[args.cluster]
    model, scored = run(args, train, test)
    labels, probabilities = (np.asarray(scored.column(name)) for name in (data.LABEL, "probability"))
    figures = {
        "auc": data.auc(labels, probabilities),
        "log_loss": data.log_loss(labels, probabilities),
        "examples_per_s": model.figures["examples_per_s"],
        "train_s": model.figures["train_s"],
        "cluster": args.cluster,
        "workers": args.workers,
        "ps": args.ps,
        "sync": args.sync,
        "strategy": args.strategy,
        "carried_as": args.carried_as,
        "checkpoint": model.checkpoint,
        "attempts": model.figures["attempts"],
        "test_examples": scored.num_rows,
    }
    if args.report:
        with open(args.report, "w") as f:
            json.dump(figures, f, indent=2)
    print(
        f"test AUC {figures['auc']:.4f}, log-loss {figures['log_loss']:.4f}; "
        f"{figures['examples_per_s']:,.0f} examples/s in {figures['train_s']:.1f} s\n"
        f"model    {model.checkpoint} (--checkpoint-dir {args.checkpoint_dir} resumes here)\n"
        f"curves   {os.path.join(os.path.dirname(sys.executable), 'tensorboard')} --logdir {args.checkpoint_dir}"
    )


if __name__ == "__main__":
    main()
