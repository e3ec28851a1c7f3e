"""The generated functions of a segment in lanes: one for each lane of each region, and one that runs the regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sparkflow_runtime.worker.codegen import Call, Segment, local_name, read, value_of, with_room
from sparkflow_runtime.worker.lane_schedule import Lanes, inputs_of
from sparkflow_runtime.worker.lane_threads import meet

_FIRST_LINE = 1_000_000  # behind those of the segment's straight function, whose file this one shares


def compile_lanes(calls: Sequence[Call], regions: Sequence[Lanes], segment: Segment) -> Callable[[list[Any]], None]:
    """run(V) of the same calls; the segment learns which node each new line is of."""
    return _Writer(calls, regions).compile(segment)


class _Writer:
    def __init__(self, calls: Sequence[Call], regions: Sequence[Lanes]):
        self.calls, self.regions = calls, regions
        self.names: dict[str, Any] = {"read": read, "meet": meet}
        self.readers: dict[int, list[int]] = {}
        for i, call in enumerate(calls):
            for j in inputs_of(call):
                self.readers.setdefault(j, []).append(i)
        self.lines: list[str] = []
        self.nodes: dict[int, str] = {}
        self.sizes: dict[str, int] = {}  # calls of each function

    def compile(self, segment: Segment) -> Callable[[list[Any]], None]:
        main = ["def run(V):", f"    X = [None] * {len(self.calls)}"]
        for number, lanes in enumerate(self.regions):
            main += ["    " + text for text in self._region(number, lanes)]
        source = "\n" * (_FIRST_LINE - 1) + "\n".join([*self.lines, *main, "    return None"])
        exec(compile(source, segment.filename, "exec"), self.names)  # our own text: indices and k/c/t names only
        segment.nodes.update(self.nodes)
        for name, calls in self.sizes.items():
            with_room(self.names[name], calls)
        return self.names["run"]

    def _region(self, number: int, lanes: Lanes) -> list[str]:
        """Write its functions; the statements that run it and drop what is read for the last time."""
        whole = sorted(line for lane in lanes for line in lane)
        self._function(f"f{number}", whole, set())
        if len(lanes) == 1:
            text = [f"f{number}(V, X, None, None)"]
        else:
            crossing = {j for lane in lanes for j in lane if set(self.readers.get(j, ())) & set(whole) - set(lane)}
            for k, lane in enumerate(lanes):
                self._function(f"f{number}_{k}", lane, crossing)
            functions = ", ".join(f"f{number}_{k}" for k in range(len(lanes)))
            self.names[f"w{number}"] = tuple(sorted(crossing))
            text = [f"meet(V, X, f{number}, ({functions}), w{number})"]
        read_here = {j for line in whole for j in inputs_of(self.calls[line])}
        later = {line for after in self.regions[number + 1 :] for lane in after for line in lane}
        over = [j for j in sorted(read_here) if not later.intersection(self.readers[j])]
        return text + ([" = ".join(f"X[{j}]" for j in over) + " = None"] if over else [])

    def _function(self, name: str, lane: Sequence[int], crossing: set[int]) -> None:
        """One lane. crossing: lines whose values lanes of this region hand to each other."""
        self.lines.append(f"def {name}(V, X, take, give):")
        self.sizes[name] = len(lane)
        own, held = set(lane), set[str]()
        last = self._last_uses(lane)
        for line in lane:
            call = self.calls[line]
            parts = self._loads(call, own, held, crossing)
            parts += self._statements(name, line, own, crossing, last)
            made = {f"t{line}"} if line in self.readers or call.stores else set[str]()
            held |= made
            drops = sorted(n for n in held if last.get(n, line) == line)
            held -= set(drops)
            self.lines.append("    " + "; ".join(parts) + (f"; del {', '.join(drops)}" if drops else ""))
            self.nodes[_FIRST_LINE - 1 + len(self.lines)] = call.node

    def _last_uses(self, lane: Sequence[int]) -> dict[str, int]:
        last: dict[str, int] = {}
        for line in lane:
            for arg in self.calls[line].args:
                name = local_name(arg)
                if name:
                    last[name] = line
                    last[name.partition("_")[0]] = line  # the tuple that an item is of
        return last

    def _loads(self, call: Call, own: set[int], held: set[str], crossing: set[int]) -> list[str]:
        """Values of other functions, and items of tuples, as locals."""
        parts: list[str] = []
        for arg in call.args:
            name = local_name(arg)
            if not name or name in held:
                continue
            whole, j = f"t{arg[1]}", arg[1]
            if whole not in held and j not in own:
                parts += ([f"take({j})"] if j in crossing else []) + [f"{whole} = X[{j}]"]
                held.add(whole)
            if name not in held:
                parts.append(f"{name} = {whole}[{arg[2]}]")
                held.add(name)
        return parts

    def _statements(self, name: str, line: int, own: set[int], crossing: set[int], last: dict[str, int]) -> list[str]:
        call = self.calls[line]
        text = value_of(call, f"k{name}_{line}", line, self.names, last)  # which inputs die differs by function
        if line not in self.readers and not call.stores:
            return [text]
        parts = [f"t{line} = {text}"]
        parts += [f"V[{slot}] = t{line}" + ("" if port is None else f"[{port}]") for slot, port in call.stores]
        if any(reader not in own for reader in self.readers.get(line, ())):
            parts.append(f"X[{line}] = t{line}")
            parts += [f"give({line})"] if line in crossing else []
        return parts
