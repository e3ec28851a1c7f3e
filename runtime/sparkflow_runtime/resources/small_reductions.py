"""All-reduce of a small tensor: it costs the time of the hops and not of its bytes, so each rank's goes round as it is
and every rank adds up for itself. That is n - 1 hops, half of what a sum takes that is first complete somewhere."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.resources.rings import (
    GATHER,
    Chunk,
    Codec,
    Place,
    Reduce,
    Ring,
    Send,
    check_dtype,
    divide,
    merging,
)
from sparkflow_runtime.wire.errors import InvalidArgumentError

SMALL_BYTES, _MORE_BYTES = 1 << 20, 256 << 10  # of the tensor; that a rank sends more than in a ring of parts


def reduction(
    place: Place,
    send: Send,
    x: np.ndarray,
    merge_op: str = "Add",
    final_op: str = "Id",
    scatter: bool = False,
    codec: Codec | None = None,
) -> Ring:
    """As `Reduce`, by the way that is the shorter one for that size: the same on all ranks, whose tensors are."""
    n = place.size
    more_bytes = x.nbytes * (n - 1) * (n - 2) // n
    if scatter or n == 1 or x.nbytes > SMALL_BYTES or more_bytes > _MORE_BYTES:
        return Reduce(place, send, x, merge_op, final_op, scatter, codec)
    return SmallReduce(place, send, x, merge_op, final_op, codec)


class SmallReduce(Ring):
    """All-reduce; the addends are added in the order of the ranks: the same bits on every rank and in every run."""

    def __init__(
        self,
        place: Place,
        send: Send,
        x: np.ndarray,
        merge_op: str = "Add",
        final_op: str = "Id",
        codec: Codec | None = None,
    ):
        super().__init__(place, send, f"all-reduce ({merge_op}, {final_op})", x.dtype, x.shape, codec)
        self._merge, self._mean = merging(merge_op, final_op)
        self._x = np.ascontiguousarray(x).reshape(-1)
        self._shape = x.shape
        self._addends: list[np.ndarray | None] = [None] * place.size

    def begin(self) -> None:
        rank = self.place.rank
        packed = self._pack(self._x)
        if self.place.size > 1:
            self._send(Chunk(GATHER, rank, 0, len(packed)), packed)
        self._keep(rank, self._unpack(packed))

    def receive(self, chunk: Chunk, data: np.ndarray) -> None:
        values, rank = self._unpack(data), chunk.segment
        check_dtype(values, self._x.dtype)
        if len(values) != len(self._x) or chunk.phase != GATHER or not 0 <= rank < self.place.size:
            raise InvalidArgumentError(
                f"The ranks' tensors differ in size: {chunk} with {len(values)} elements came, {len(self._x)} are here"
            )
        if self._addends[rank] is not None:
            raise InvalidArgumentError(f"Rank {rank}'s tensor came twice")
        if not self.place.before(rank):
            self._send(chunk, data)
        self._keep(rank, values)

    def _keep(self, rank: int, values: np.ndarray) -> None:
        self._addends[rank] = values
        addends = [one for one in self._addends if one is not None]
        if len(addends) == self.place.size:
            self._add_up(addends)

    def _add_up(self, addends: list[np.ndarray]) -> None:
        out, *rest = addends
        out = out.copy()
        for one in rest:
            self._merge(out, one, out=out)
        if self._mean:
            divide(out, self.place.size)
        self.result, self.done = out.reshape(self._shape), True
