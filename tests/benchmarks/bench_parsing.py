"""Parsing serialized Examples, SequenceExamples and lines of CSV in a graph, us a call on one core, the best of rounds:

    python tests/benchmarks/bench_parsing.py [--backend tensorflow]

Example: a label, a name, 13 floats and 26 integers. SequenceExample: a label, a name; 20 or 3 steps of an integer, of
8 floats and of 1 to 3 integers (sparse). CSV: 8 columns of all types, 8 of floats, 40 of integers, 8 of which a tenth
is missing, 5 of which two are quoted. Every tensor is fetched: TensorFlow leaves out what nobody takes.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")

import numpy as np

MANY, ROUNDS = 256, 15


def feature(tf: Any, *values: Any) -> Any:
    train, kind = tf.train, type(values[0])
    if kind is int:
        return train.Feature(int64_list=train.Int64List(value=values))
    if kind is float:
        return train.Feature(float_list=train.FloatList(value=values))
    return train.Feature(bytes_list=train.BytesList(value=values))


def sequence(tf: Any, rng: random.Random, steps: int) -> bytes:
    lists = {
        "ids": [feature(tf, rng.randrange(10**6)) for _ in range(steps)],
        "vector": [feature(tf, *(rng.random() for _ in range(8))) for _ in range(steps)],
        "tags": [feature(tf, *(rng.randrange(100) for _ in range(rng.randrange(1, 4)))) for _ in range(steps)],
    }
    made = tf.train.SequenceExample(
        context=tf.train.Features(feature={"label": feature(tf, 1), "name": feature(tf, b"user")}),
        feature_lists=tf.train.FeatureLists(
            feature_list={name: tf.train.FeatureList(feature=some) for name, some in lists.items()}
        ),
    )
    return bytes(made.SerializeToString())


def example(tf: Any, rng: random.Random) -> bytes:
    features = {"label": feature(tf, 1), "name": feature(tf, b"user")}
    features |= {f"I{i}": feature(tf, rng.random()) for i in range(13)}
    features |= {f"C{i}": feature(tf, rng.randrange(10**6)) for i in range(26)}
    return bytes(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def works(tf: Any) -> Iterator[tuple[str, list[Any], Any, Any]]:
    """(what, tensors, placeholder, what it is fed)."""
    rng, many, one = random.Random(0), tf.placeholder(tf.string, [None]), tf.placeholder(tf.string, [])
    context = {"label": tf.FixedLenFeature([], tf.int64), "name": tf.FixedLenFeature([], tf.string)}
    lists = {
        "ids": tf.FixedLenSequenceFeature([], tf.int64), "vector": tf.FixedLenSequenceFeature([8], tf.float32),
        "tags": tf.VarLenFeature(tf.int64),
    }  # fmt: skip
    wide = {f"I{i}": tf.FixedLenFeature([], tf.float32) for i in range(13)}
    wide |= {f"C{i}": tf.FixedLenFeature([], tf.int64) for i in range(26)}
    for steps in (20, 3):
        messages = np.array([sequence(tf, rng, steps) for _ in range(MANY)], object)
        batch = tensors(tf, tf.io.parse_sequence_example(many, context, lists))
        yield f"SequenceExample, {steps} steps, {MANY}", batch, many, messages
        yield f"SequenceExample, {steps} steps, 8", batch, many, messages[:8]
        single = tensors(tf, tf.io.parse_single_sequence_example(one, context, lists))
        yield f"SequenceExample, {steps} steps, one", single, one, messages[0]
    messages = np.array([example(tf, rng) for _ in range(MANY)], object)
    batch = tensors(tf, tf.io.parse_example(many, {**context, **wide}))
    yield f"Example, {MANY}", batch, many, messages
    yield "Example, 8", batch, many, messages[:8]
    yield "Example, one", tensors(tf, tf.io.parse_single_example(one, {**context, **wide})), one, messages[0]

    for kind, (lines, defaults) in csv_lines(rng).items():
        columns = tf.io.decode_csv(many, defaults)
        yield f"CSV, {kind}, {MANY}", columns, many, lines
        yield f"CSV, {kind}, 8", columns, many, lines[:8]


def csv_lines(rng: random.Random) -> dict[str, tuple[np.ndarray, list[Any]]]:
    """(lines, defaults) by what they hold."""

    def mixed() -> list[str]:
        numbers = [str(rng.randrange(1000)), f"{rng.random():.4f}", f"{rng.gauss(0, 1):.6g}", f"w{rng.randrange(99)}"]
        return [*numbers, str(rng.randrange(-5, 5)), f"{rng.random():.2f}", str(rng.randrange(10**9)), "1"]

    def quoted() -> list[str]:
        return [f'"a{rng.randrange(99)}"', str(rng.randrange(99)), f'"x, y{rng.randrange(99)}"', "0.125", "7"]

    kinds: dict[str, tuple[Any, list[Any]]] = {
        "mixed": (mixed, [[0], [0.0], [0.0], [""], [0], [0.0], [0], [0]]),
        "floats": (lambda: [f"{rng.gauss(0, 1):.6f}" for _ in range(8)], [[0.0]] * 8),
        "integers": (lambda: [str(rng.randrange(10**6)) for _ in range(40)], [[0]] * 40),
        "missing": (lambda: [str(rng.randrange(99)) if rng.random() < 0.9 else "" for _ in range(8)], [[0]] * 8),
        "quoted": (quoted, [[""], [0], [""], [0.0], [0]]),
    }
    return {
        kind: (np.array([",".join(line()).encode() for _ in range(MANY)], object), defaults)
        for kind, (line, defaults) in kinds.items()
    }


def tensors(tf: Any, parsed: Any) -> list[Any]:
    found: list[Any] = []
    for value in [v for part in (parsed if isinstance(parsed, tuple) else (parsed,)) for v in part.values()]:
        found += [value.indices, value.values, value.dense_shape] if isinstance(value, tf.SparseTensor) else [value]
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", choices=["sparkflow", "tensorflow"], default="sparkflow")
    name = p.parse_args().backend
    tf: Any = import_module("tensorflow.compat.v1" if name == "tensorflow" else name)
    if name == "tensorflow":
        tf.disable_eager_execution()
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    with tf.Session(config=config) as session:
        for what, fetches, given, messages in works(tf):
            call = session.make_callable(fetches, [given])
            times = 3 if what.endswith(str(MANY)) else 30
            taken = np.empty((ROUNDS + 1, 2))
            for turn in taken:
                begun, cpu_s = time.perf_counter(), time.process_time()
                for _ in range(times):
                    call(messages)
                turn[:] = time.perf_counter() - begun, time.process_time() - cpu_s
            clock, cpu = taken[1:].min(0) / times * 1e6
            print(f"{name}: {what:32} {cpu:7.0f} us of CPU {clock:7.0f} by the clock", flush=True)


if __name__ == "__main__":
    main()
