"""The nodes that a session knows, by name and in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import islice
from threading import Lock

from sparkflow_runtime.wire.edges import verify
from sparkflow_runtime.wire.errors import InvalidArgumentError
from sparkflow_runtime.wire.protos import GraphDef, NodeDef

Write = Callable[[str, NodeDef], None]
_AT_ONCE = 32  # nodes looked at before the next question whether to go on
_SORTED = 8  # names looked through in the time of sorting one in


class Nodes(Mapping[str, NodeDef]):
    """Those of a graph that is in this process are written when a signature first needs them: of a model's nodes many
    are another task's (what initializes, saves and restores is the chief's), or nobody's."""

    def __init__(self) -> None:
        self._known: dict[str, NodeDef | Write] = {}
        self._places: dict[str, int] = {}  # of the first ones: which each is
        self._held = GraphDef()  # whose memory the written ones share
        self._lock = Lock()

    def add(self, graph: GraphDef, again: bool = False) -> None:
        """again: some may have been added before. Raises InvalidArgumentError on a name that is taken or an input that
        is nowhere."""
        if again:
            graph = GraphDef(node=[n for n in graph.node if n.name not in self._known])
        verify(graph, self._known)
        self._known.update({n.name: n for n in graph.node})

    def add_unwritten(self, names: Iterable[str], write: Write, again: bool = False) -> None:
        """Nodes whose inputs are known to be there. write: makes an empty NodeDef the node of a name, as it then is.
        again: some may have been added before.

        Raises InvalidArgumentError on a name that is taken.
        """
        new: dict[str, NodeDef | Write] = dict.fromkeys(names, write)
        if again:
            new = {name: write for name in new if name not in self._known}
        taken = self._known.keys() & new
        if taken:
            raise InvalidArgumentError(f"GraphDef: two nodes are called {min(taken)!r}")
        self._known.update(new)

    def __getitem__(self, name: str) -> NodeDef:
        found = self._known[name]
        return found if type(found) is NodeDef else self._written(name)

    def _written(self, name: str) -> NodeDef:
        with self._lock:
            found = self._known[name]
            if not isinstance(found, NodeDef):
                write, found = found, self._held.node.add()
                write(name, found)
                self._known[name] = found
            return found

    def write_ahead(self, until: Callable[[], bool]) -> None:
        """Write what no signature has needed yet, in the time that one waits for other tasks: the next takes less."""
        for i, (name, found) in enumerate(tuple(self._known.items())):
            if i % _AT_ONCE == 0 and until():
                break
            if type(found) is not NodeDef:
                try:
                    self._written(name)
                except Exception:
                    continue  # nobody has asked for it, and who does will be told

    def in_order(self, names: Collection[str]) -> Iterable[str]:
        """Some of the names, as they were added. Of a large graph, a few are not looked for among all."""
        if len(names) * _SORTED > len(self._known):
            return [name for name in self._known if name in names]
        if len(self._places) < len(self._known):
            begun = len(self._places)
            self._places |= {name: begun + i for i, name in enumerate(islice(tuple(self._known), begun, None))}
        return sorted(names, key=self._places.__getitem__)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)
