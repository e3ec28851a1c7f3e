"""Pipelines of tf.data as programs write them, us an element by processor time and by the clock, best of the rounds:

    python tests/benchmarks/bench_datasets.py [--backend tensorflow] [--only NAME,NAME] [--rounds N]
    python tests/benchmarks/bench_datasets.py --beside PYTHON   # in turn with TensorFlow in that interpreter: shares

Each batch is fetched by a session that does nothing else. A round begins where its iterator is initialized, and ends
with the data or after as many batches as the case says. The files are made once, in a folder of the run.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

os.environ.setdefault("SPARKFLOW_NUMBA", "wait")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
from side_by_side import compare

ROWS, BATCH, IMAGES = 20_000, 128, 192
Case = Callable[[Any, str], Any]
CASES: dict[str, tuple[Case, int]] = {}  # name -> (dataset of, elements in a batch)


def case(batch: int = BATCH) -> Callable[[Case], Case]:
    def added(build: Case) -> Case:
        CASES[build.__name__] = build, batch
        return build

    return added


# ---------------------------------------------------------------------- files


def prepare(folder: str) -> None:
    """A CSV file, TFRecord files of Examples, one of images in Examples, folders of JPEG and PNG files."""
    import sparkflow as tf

    Image = import_module("PIL.Image")
    rng = np.random.default_rng(0)
    with open(f"{folder}/rows.csv", "w") as file:
        file.write(",".join(["label", *(f"x{i}" for i in range(10)), "kind"]) + "\n")
        for _ in range(ROWS):
            numbers = ",".join(f"{x:.4f}" for x in rng.normal(size=10))
            file.write(f"{rng.integers(2)},{numbers},kind{rng.integers(50)}\n")

    def example(**features: Any) -> bytes:
        made = {}
        for name, value in features.items():
            if isinstance(value, bytes):
                made[name] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
            elif isinstance(value, int):
                made[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
            else:
                made[name] = tf.train.Feature(float_list=tf.train.FloatList(value=value))
        return bytes(tf.train.Example(features=tf.train.Features(feature=made)).SerializeToString())

    for part in range(4):
        with tf.io.TFRecordWriter(f"{folder}/part-{part}.tfrecord") as writer:
            for i in range(ROWS // 4):
                writer.write(example(label=i % 10, x=rng.normal(size=20), name=b"user%d" % i))
    os.mkdir(f"{folder}/images")
    with tf.io.TFRecordWriter(f"{folder}/images.tfrecord") as writer:
        for i in range(IMAGES):
            smooth = Image.fromarray(rng.integers(0, 255, (32, 40, 3), np.uint8)).resize((320, 256))
            for kind in ("jpeg", "png"):
                out = io.BytesIO()
                smooth.save(out, kind)
                with open(f"{folder}/images/{i:04d}.{kind}", "wb") as file:
                    file.write(out.getvalue())
                if kind == "jpeg":
                    writer.write(example(image=out.getvalue(), label=i % 10))


# ---------------------------------------------------------------------- pipelines


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.random((ROWS, 784), np.float32), rng.integers(0, 10, ROWS)


@case()
def slices(tf: Any, folder: str) -> Any:
    x, y = arrays()
    hold = tf.placeholder(tf.float32, x.shape), tf.placeholder(tf.int64, y.shape)
    return tf.data.Dataset.from_tensor_slices(hold).shuffle(10_000).repeat().batch(BATCH), dict(zip(hold, (x, y)))


@case()
def slices_mapped(tf: Any, folder: str) -> Any:
    """uint8 to float32, labels to one-hot."""
    x, y = arrays()
    data = tf.data.Dataset.from_tensor_slices(((x * 255).astype(np.uint8), y))
    data = data.map(lambda a, b: (tf.cast(a, tf.float32) / 255.0, tf.one_hot(b, 10)))
    return data.shuffle(1000).repeat().batch(BATCH).prefetch(1)


@case()
def generator(tf: Any, folder: str) -> Any:
    x = np.ones(20, np.float32)
    rows = lambda: ((x, i) for i in range(ROWS))  # noqa: E731
    return tf.data.Dataset.from_generator(rows, (tf.float32, tf.int64), ([20], [])).batch(BATCH)


@case(32)
def padded(tf: Any, folder: str) -> Any:
    words = [list(range(i % 30 + 1)) for i in range(5000)]
    data = tf.data.Dataset.from_generator(lambda: ((w, len(w)) for w in words), (tf.int32, tf.int32), ([None], []))
    return data.shuffle(1000).padded_batch(32, ([None], []))


@case()
def text_tokens(tf: Any, folder: str) -> Any:
    lines = tf.data.TextLineDataset(f"{folder}/rows.csv").skip(1)
    return lines.map(lambda line: tf.string_split([line], ",").values).map(lambda w: (w, tf.size(w))).padded_batch(
        BATCH, ([None], []))  # fmt: skip


@case()
def csv_map(tf: Any, folder: str) -> Any:
    def parse(line: Any) -> Any:
        columns = tf.decode_csv(line, [[0], *([[0.0]] * 10), [""]])
        return {"x": tf.stack(columns[1:-1]), "kind": columns[-1]}, columns[0]

    lines = tf.data.TextLineDataset(f"{folder}/rows.csv").skip(1)
    return lines.map(parse, num_parallel_calls=4).shuffle(1000).batch(BATCH).prefetch(1)


@case()
def csv_after_batch(tf: Any, folder: str) -> Any:
    lines = tf.data.TextLineDataset(f"{folder}/rows.csv").skip(1).shuffle(1000).batch(BATCH)
    return lines.map(lambda batch: tuple(tf.decode_csv(batch, [[0], *([[0.0]] * 10), [""]])))


@case()
def csv_dataset(tf: Any, folder: str) -> Any:
    kinds = [tf.int32, *([tf.float32] * 10), tf.string]
    return tf.data.experimental.CsvDataset(f"{folder}/rows.csv", kinds, header=True).batch(BATCH)


@case()
def make_csv(tf: Any, folder: str) -> Any:
    return tf.data.experimental.make_csv_dataset(f"{folder}/rows.csv", BATCH, label_name="label", num_epochs=1)


FEATURES = {"label": "int64", "x": "float32", "name": "string"}


def features(tf: Any) -> Any:
    shape = {"x": [20]}
    return {k: tf.FixedLenFeature(shape.get(k, []), getattr(tf, t)) for k, t in FEATURES.items()}


@case()
def record_single(tf: Any, folder: str) -> Any:
    data = tf.data.TFRecordDataset([f"{folder}/part-{i}.tfrecord" for i in range(4)])
    return data.map(lambda r: tf.parse_single_example(r, features(tf))).shuffle(1000).batch(BATCH).prefetch(1)


@case()
def record_batch(tf: Any, folder: str) -> Any:
    data = tf.data.TFRecordDataset([f"{folder}/part-{i}.tfrecord" for i in range(4)])
    return data.shuffle(1000).batch(BATCH).map(lambda r: tf.parse_example(r, features(tf))).prefetch(1)


@case()
def record_interleaved(tf: Any, folder: str) -> Any:
    files = tf.data.Dataset.list_files(f"{folder}/part-*.tfrecord")
    data = files.apply(tf.data.experimental.parallel_interleave(tf.data.TFRecordDataset, cycle_length=4))
    return data.apply(
        tf.data.experimental.map_and_batch(lambda r: tf.parse_single_example(r, features(tf)), BATCH)
    ).prefetch(1)


def loaded(tf: Any, raw: Any, kind: str = "jpeg") -> Any:
    image = getattr(tf.image, f"decode_{kind}")(raw, channels=3)
    image = tf.image.resize_images(image, [128, 128])
    image = tf.image.random_flip_left_right(tf.random_crop(image, [112, 112, 3]))
    return image / 127.5 - 1.0


def image_files(tf: Any, folder: str, kind: str) -> Any:
    names = sorted(f"{folder}/images/{n}" for n in os.listdir(f"{folder}/images") if n.endswith(kind))
    data = tf.data.Dataset.from_tensor_slices((names, [i % 10 for i in range(len(names))])).shuffle(len(names))
    return data.map(lambda n, y: (loaded(tf, tf.read_file(n), kind), y), num_parallel_calls=4).batch(32).prefetch(2)


@case(32)
def jpeg(tf: Any, folder: str) -> Any:
    return image_files(tf, folder, "jpeg")


@case(32)
def png(tf: Any, folder: str) -> Any:
    return image_files(tf, folder, "png")


@case(32)
def jpeg_records(tf: Any, folder: str) -> Any:
    """With distortions of colour."""
    wanted = {"image": tf.FixedLenFeature([], tf.string), "label": tf.FixedLenFeature([], tf.int64)}

    def parse(record: Any) -> Any:
        found = tf.parse_single_example(record, wanted)
        image = tf.image.random_brightness(loaded(tf, found["image"]), 0.2)
        return tf.image.random_contrast(image, 0.8, 1.2), found["label"]

    data = tf.data.TFRecordDataset(f"{folder}/images.tfrecord").shuffle(100)
    return data.apply(tf.data.experimental.map_and_batch(parse, 32, num_parallel_calls=4)).prefetch(2)


@case(32)
def small_images(tf: Any, folder: str) -> Any:
    """As for CIFAR: records of bytes, a crop, a flip, standardized."""
    rng = np.random.default_rng(0)
    with open(f"{folder}/cifar.bin", "wb") as file:
        file.write(rng.integers(0, 255, (2000, 3073), np.uint8).tobytes())

    def parse(record: Any) -> Any:
        raw = tf.decode_raw(record, tf.uint8)
        image = tf.cast(tf.transpose(tf.reshape(raw[1:], [3, 32, 32]), [1, 2, 0]), tf.float32)
        image = tf.random_crop(tf.image.resize_image_with_crop_or_pad(image, 40, 40), [32, 32, 3])
        image = tf.image.random_flip_left_right(image)
        return tf.image.per_image_standardization(image), tf.cast(raw[0], tf.int32)

    data = tf.data.FixedLengthRecordDataset(f"{folder}/cifar.bin", 3073)
    return data.map(parse, num_parallel_calls=4).shuffle(500).batch(32).prefetch(1)


@case()
def zipped(tf: Any, folder: str) -> Any:
    x, y = arrays()
    both = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(x), tf.data.Dataset.from_tensor_slices(y)))
    return both.filter(lambda a, b: tf.not_equal(b, 3)).batch(BATCH)


@case()
def ranges(tf: Any, folder: str) -> Any:
    return tf.data.Dataset.range(ROWS).map(lambda i: i * 2).concatenate(tf.data.Dataset.range(10)).batch(BATCH)


@case()
def cached(tf: Any, folder: str) -> Any:
    """Its second and third epoch too."""
    data = tf.data.Dataset.from_tensor_slices(np.arange(ROWS // 2)).map(lambda i: tf.cast(i, tf.float32) * 0.5)
    return data.cache().shuffle(1000).repeat(3).batch(BATCH)


@case(32)
def bucketed(tf: Any, folder: str) -> Any:
    words = [list(range(i % 50 + 1)) for i in range(5000)]
    data = tf.data.Dataset.from_generator(lambda: iter(words), tf.int32, [None])
    by = tf.data.experimental.bucket_by_sequence_length(lambda w: tf.size(w), [10, 20, 30, 40], [32] * 5)
    return data.apply(by)


@case(32)
def windows(tf: Any, folder: str) -> Any:
    data = tf.data.Dataset.range(3000).flat_map(lambda i: tf.data.Dataset.from_tensors(i).repeat(2))
    return data.apply(
        tf.data.experimental.group_by_window(lambda i: i % 3, lambda key, rows: rows.batch(32), window_size=32)
    )


# ---------------------------------------------------------------------- measuring


def run(tf: Any, name: str, folder: str, rounds: int, most: int = 200) -> dict[str, Any]:
    build, batch = CASES[name]
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        made = build(tf, folder)
        dataset, feeds = made if isinstance(made, tuple) else (made, None)
        iterator = tf.data.make_initializable_iterator(dataset)
        flat = [x for x in _flat(iterator.get_next())]
        best = [float("inf"), float("inf")]
        with tf.Session() as session:
            step = session.make_callable([tf.group(*flat)] if name == "slices" else flat)
            for turn in range(rounds + 1):
                session.run(iterator.initializer, feeds)
                done, begun, cpu = 0, time.perf_counter(), time.process_time()
                try:
                    while done < most:
                        step()
                        done += 1
                except tf.errors.OutOfRangeError:
                    pass
                taken = time.process_time() - cpu, time.perf_counter() - begun
                if turn:
                    best = [min(b, t / (done * batch) * 1e6) for b, t in zip(best, taken)]
    return {"name": name, "cpu_us": round(best[0], 3), "clock_us": round(best[1], 3)}


def _flat(structure: Any) -> Iterator[Any]:
    if isinstance(structure, dict):
        structure = [structure[k] for k in sorted(structure)]
    if isinstance(structure, (list, tuple)):
        for part in structure:
            yield from _flat(part)
    else:
        yield structure


def backend(name: str) -> Any:
    if name == "sparkflow":
        return import_module("sparkflow")
    tf = import_module("tensorflow").compat.v1
    tf.disable_eager_execution()
    return tf


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--backend", choices=("sparkflow", "tensorflow"), default="sparkflow")
    p.add_argument("--beside", metavar="PYTHON")
    p.add_argument("--only", default="")
    p.add_argument("--rounds", type=int, default=4)
    p.add_argument("--folder", help="with the files of another run")
    args = p.parse_args()
    names = args.only.split(",") if args.only else list(CASES)
    with tempfile.TemporaryDirectory() as made:
        folder = args.folder or made
        if not args.folder or not os.listdir(folder):
            prepare(folder)
        if args.beside:
            compare(__file__, args.beside, names, "us", "--folder", folder, "--rounds", str(args.rounds))
        else:
            tf = backend(args.backend)
            for name in names:
                print(json.dumps(run(tf, name, folder, args.rounds)), flush=True)


if __name__ == "__main__":
    main()
