"""Sets of examples, and CSV files of them."""

from __future__ import annotations

import csv
from typing import Any, NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """Arrays of examples and of what is to be said of them."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Those to train with, to choose by, and to test with."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """The rows of a CSV file whose first line says how many rows and features there are."""
    with open(filename, newline="") as file:
        lines = csv.reader(file)
        count, width = (int(field) for field in next(lines)[:2])
        rows = [(row.pop(target_column), row) for row in lines]
    data, target = np.zeros((count, width), features_dtype), np.zeros((count,), target_dtype)
    for i, (wanted, fields) in enumerate(rows):
        target[i], data[i] = np.asarray(wanted, target_dtype), np.asarray(fields, features_dtype)
    return Dataset(data, target)


def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """The rows of a CSV file."""
    with open(filename, newline="") as file:
        rows = [(row.pop(target_column), row) for row in csv.reader(file)]
    target = np.array([wanted for wanted, _ in rows]).astype(target_dtype)
    return Dataset(np.array([np.asarray(fields, features_dtype) for _, fields in rows]), target)
