"""tf.contrib.slim.data_decoder: what turns a record into named tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any


class DataDecoder(ABC):
    """A subclass says which items it has, and makes them of a record."""

    @abstractmethod
    def decode(self, data: Any, items: Sequence[str]) -> list[Any]:
        """The tensors of these items, in their order; data: a record as a tensor."""

    @abstractmethod
    def list_items(self) -> Sequence[str]:
        """The names of all items."""
