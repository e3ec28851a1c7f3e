"""GradientTape: gradients of what was computed while it recorded, by the tensors and variables that it watched.

In a graph all ops are there to be looked at, so a tape writes nothing down but when it began and stopped, and what it
watched: the reverse walk then stops at ops that were not recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sparkflow.framework import nest
from sparkflow.framework.apply import convert_to_tensor
from sparkflow.framework.contexts import while_context
from sparkflow.framework.graph import Graph, Operation, Tensor, get_default_graph
from sparkflow.framework.indexed_slices import IndexedSlices
from sparkflow.grads.gradients import UnconnectedGradients, gradients
from sparkflow.grads.level import trainable
from sparkflow.ops import array, array_join, array_slice, math
from sparkflow.ops.control_flow_while import WhileContext, while_loop
from sparkflow.ops.tensor_array import TensorArray
from sparkflow.ops.variables import Variable


class GradientTape:
    """`with` one of these, what is computed from watched tensors and from trainable variables is recorded.

    persistent: gradient() may be called more than once. watch_accessed_variables: False leaves variables aside that
    watch() was not called with.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True):
        self._persistent, self._watch_variables = persistent, watch_accessed_variables
        self._graph: Graph | None = None
        self._spans: list[tuple[int, int | None]] = []  # versions of the graph between which it recorded
        self._watched: list[tuple[int, Any]] = []
        self._used = False

    # ------------------------------------------------------------------ recording

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ValueError("Tape is already recording.")
        self._start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recording:
            self._stop()

    @property
    def _recording(self) -> bool:
        return bool(self._spans) and self._spans[-1][1] is None

    def _start(self) -> None:
        self._graph = get_default_graph()
        self._spans.append((self._graph.version, None))

    def _stop(self) -> None:
        if not self._recording or self._graph is None:
            raise ValueError("Tape is not recording.")
        self._spans[-1] = (self._spans[-1][0], self._graph.version)

    def watch(self, tensor: Any) -> None:
        """Record what is computed from a tensor, a variable, or a structure of them, from here on."""
        for leaf in nest.flatten(tensor, expand_composites=True):
            if not isinstance(leaf, (Tensor, Variable)) and not hasattr(leaf, "_as_graph_element"):
                raise ValueError(
                    f"Passed in object {leaf!r} of type {type(leaf).__name__}, not tf.Tensor or tf.Variable"
                )
            self._watched.append((get_default_graph().version, leaf))

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """What is computed inside is not recorded."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def reset(self) -> None:
        """Forget all, and go on recording."""
        self._spans, self._watched, self._used = [], [], False
        self._start()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that watch() was called with, and the trainable ones that were read while it recorded."""
        own = [v for _, v in self._watched if not isinstance(v, Tensor)]
        read = self._accessed() if self._watch_variables and self._graph is not None else []
        return tuple({id(v): v for v in [*own, *read]}.values())

    def _accessed(self) -> list[Any]:
        assert self._graph is not None
        used = {t for op in self._recorded_ops() for t in op.inputs}
        known = [v for key in self._graph.collections for v in self._graph.get_collection(key)]
        variables = {id(v): v for v in known if isinstance(v, Variable) and v.trainable}
        return [v for v in variables.values() if not used.isdisjoint((v._ref(), v._snapshot))]

    def _recorded_ops(self) -> list[Operation]:
        assert self._graph is not None
        return [op for first, last in self._spans for op in self._graph.operations_since(first, last)]

    # ------------------------------------------------------------------ gradients

    def gradient(
        self, target: Any, sources: Any, output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:  # fmt: skip
        """d(sum of target)/d(source) for each source, in the structure of sources; None (or zeros) where what was
        recorded does not lead there. Raises RuntimeError where it was asked before and is not persistent."""
        self._use()
        return self._gradient(target, sources, output_gradients, UnconnectedGradients(unconnected_gradients))

    def _use(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians): make "
                "it with persistent=True"
            )
        if not self._spans:
            raise RuntimeError("GradientTape.gradient: the tape has recorded nothing: use it in a `with` block first")
        self._used = True
        if self._recording and not self._persistent:
            self._stop()

    def _gradient(self, target: Any, sources: Any, output_gradients: Any, unconnected: UnconnectedGradients) -> Any:
        targets = nest.flatten(target, expand_composites=True)
        seeds = None if output_gradients is None else nest.flatten(output_gradients, expand_composites=True)
        flat = nest.flatten(sources)
        found = self._of(targets, flat, seeds)
        if unconnected is UnconnectedGradients.ZERO:
            found = [array.zeros_like(convert_to_tensor(x)) if g is None else g for g, x in zip(found, flat)]
        return nest.pack_sequence_as(sources, found)

    def _of(self, targets: list[Any], sources: list[Any], seeds: list[Any] | None) -> list[Any]:
        """None for what it does not record. A source that is several tensors, such as IndexedSlices, counts by its
        values."""
        ys = [convert_to_tensor(y) for y in targets]
        recorded = _Recorded(self)
        xs = [recorded.source(x) for x in sources]
        asked = [x for x in xs if x is not None]
        kept = [i for i, y in enumerate(ys) if trainable(y)]
        if not asked or not kept:
            return [None] * len(xs)
        given = None if seeds is None else [seeds[i] for i in kept]
        found = iter(gradients([ys[i] for i in kept], asked, given, _stops=recorded))
        return [None if x is None else next(found) for x in xs]

    def jacobian(
        self, target: Any, sources: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """d(target)/d(source), of shape target.shape + source.shape."""
        self._use()
        y = convert_to_tensor(target)
        unconnected = UnconnectedGradients(unconnected_gradients)
        flat = nest.flatten(sources)
        rows = self._rows([array.reshape(y, [-1])], flat, unconnected, parallel_iterations or 10)
        found: list[Any] = []
        for row, x in zip(rows, flat):
            source = convert_to_tensor(x)
            if row is not None:
                row = array.reshape(row, array_join.concat([array.shape(y), array.shape(source)], 0))
                row.set_shape(y.shape.concatenate(source.shape))
            found.append(row)
        return nest.pack_sequence_as(sources, found)

    def batch_jacobian(
        self, target: Any, source: Any, unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None, experimental_use_pfor: bool = True,
    ) -> Any:  # fmt: skip
        """d(target[i])/d(source[i]) for each i, of shape [batch] + target.shape[1:] + source.shape[1:]; target[i] must
        depend on source[i] alone."""
        self._use()
        y, x = convert_to_tensor(target), convert_to_tensor(source)
        if y.shape.rank is None or x.shape.rank is None or y.shape.rank < 2:
            raise ValueError(f"Unknown rank or less than 2 dimensions: target {y.shape}, source {x.shape}")
        if not y.shape[:1].is_compatible_with(x.shape[:1]):
            raise ValueError(f"Need first dimension of target shape ({y.shape}) and source shape ({x.shape}) to match.")
        matrix = array.reshape(y, [array.shape(y)[0], -1])
        columns = array.transpose(matrix)
        unconnected = UnconnectedGradients(unconnected_gradients)
        (rows,) = self._rows([columns, matrix], [source], unconnected, parallel_iterations or 10)
        if rows is None:
            return None
        sizes = array_join.concat([array.shape(y), array.shape(x)[1:]], 0)
        rank = x.shape.rank
        swapped = array.transpose(rows, [1, 0, *range(2, rank + 1)])
        found = array.reshape(swapped, sizes)
        found.set_shape(y.shape.concatenate(x.shape[1:]))
        return found

    def _rows(
        self, made: list[Tensor], sources: list[Any], unconnected: UnconnectedGradients, parallel: int
    ) -> list[Any]:
        """The gradients of the rows of made[0] by each source, one below the other; None of what it does not record.
        made: what was computed of the target afterwards, the last first."""
        flat, recorded = made[0], _Recorded(self, made)
        xs = [recorded.source(x) for x in sources]
        connected = self._connected(flat, xs, recorded)
        if unconnected is UnconnectedGradients.ZERO:
            connected = [True] * len(xs)
        asked = [convert_to_tensor(s) for s, c in zip(sources, connected) if c]
        if not asked:
            return [None] * len(sources)

        def of(i: Any) -> list[Tensor]:
            y = array_slice.gather(flat, i)
            found = gradients(y, [x if x is not None else s for x, s, c in zip(xs, sources, connected) if c],
                              unconnected_gradients=UnconnectedGradients.ZERO,
                              _stops=recorded.beyond(y))  # fmt: skip
            return [convert_to_tensor(g) for g in found]

        n = array.shape(flat)[0]
        if flat.shape.rank and flat.shape[0].value is not None and _through_loops(flat):
            columns = zip(*(of(i) for i in range(flat.shape[0].value)))
            rows = iter([array_join.stack(list(column)) for column in columns])
        else:
            arrays = [TensorArray(x.dtype.base_dtype, n) for x in asked]
            _, *arrays = while_loop(
                lambda i, *_: math.less(i, n),
                lambda i, *done: (math.add(i, 1), *[a.write(i, g) for a, g in zip(done, of(i))]),
                [convert_to_tensor(0), *arrays],
                parallel_iterations=parallel,
            )
            rows = iter([a.stack() for a in arrays])
        return [next(rows) if c else None for c in connected]

    def _connected(self, y: Tensor, xs: list[Any], recorded: _Recorded) -> list[bool]:
        asked = [x for x in xs if x is not None]
        found = iter(gradients(y, asked, _stops=recorded) if asked else [])
        return [x is not None and next(found) is not None for x in xs]


class _Recorded:
    """As a set: the nodes at which the walk stops, those that the tape did not record."""

    def __init__(self, tape: GradientTape, more: Iterable[Tensor] = ()):
        """more: what is computed of the target afterwards, which the walk goes through."""
        self._tape = tape
        self._through = {t.op for t in more}
        variables = tape.watched_variables()
        self._variables = {id(v) for v in variables}
        self._tensors: set[Tensor] = {t for v in variables for t in (convert_to_tensor(v, as_ref=True),)}
        self._tensors |= {v._snapshot for v in variables if isinstance(v, Variable)}
        self._ops: set[Any] = set()
        self._look(tape)

    def beyond(self, y: Tensor) -> _Recorded:
        self._through.add(y.op)
        self._through |= {t.op for t in y.op.inputs}
        return self

    def _look(self, tape: GradientTape) -> None:
        watched = sorted(((at, t) for at, t in tape._watched if isinstance(t, Tensor)), key=lambda pair: pair[0])
        graph = tape._graph
        assert graph is not None
        for first, last in tape._spans:
            for at, op in enumerate(graph.operations_since(first, last), first):
                while watched and watched[0][0] <= at:
                    self._tensors.add(watched.pop(0)[1])
                loop = while_context(op)
                context = op._control_flow_context
                in_loop = loop is not None or isinstance(context, WhileContext)
                if in_loop or any(t in self._tensors for t in op.inputs):
                    self._ops.add(op)
                    if isinstance(context, WhileContext):
                        self._ops.add(context)
                    self._tensors.update(t for t in op.outputs if trainable(t) or t.dtype.is_ref)
        self._tensors.update(t for _, t in watched)

    def source(self, x: Any) -> Tensor | None:
        """The tensor to differentiate by; None of what is not watched."""
        if isinstance(x, Tensor):
            return x if x in self._tensors else None
        if isinstance(x, IndexedSlices):
            return self.source(x.values)
        reference = convert_to_tensor(x, as_ref=True)
        return reference if id(x) in self._variables or reference in self._tensors else None

    def __contains__(self, node: Any) -> bool:
        if isinstance(node, Operation):
            if node.type == "Identity" and node.inputs[0].dtype.is_ref:
                return node.inputs[0] not in self._tensors
            if node in self._through:
                return False
        return node not in self._ops


def _through_loops(y: Tensor) -> bool:
    """Whether y is made of values of loops: each gradient through those pops what they pushed."""
    seen, todo = {y.op}, [y.op]
    while todo:
        op = todo.pop()
        if op.type in ("Exit", "RefExit"):
            return True
        fresh = {t.op for t in op.inputs} - seen
        todo += fresh
        seen |= fresh
    return False
