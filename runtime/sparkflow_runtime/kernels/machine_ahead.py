"""All of the machine code at once, before any program needs it: what an image for a cluster, or a new machine, begins
with. Programs find it where machine_code.py keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from sparkflow_runtime.kernels import background, compiled, machine_code

_MAKES_SOME = ("@compiled(", "(Native)", " = Settled(")  # in the text of a module
_PACKAGES = ("sparkflow_runtime.kernels", "sparkflow_runtime.records")


def works() -> list[background.Work]:
    """Every loop that is kept as machine code."""
    for module in _modules_with_loops():
        import_module(module)
    found: list[background.Work] = [*compiled.registered(), *compiled.natives()]
    return [work for work in found if work.kept]


def missing() -> list[str]:
    """Those that this machine has not got yet, as module:attribute."""
    return [work.where for work in works() if background.lacking(work)]


def build(names: list[str], processes: int) -> str:
    """Build these in child processes, and keep them; what the children said where they failed."""
    starts = [i * len(names) // processes for i in range(processes)]
    # Each begins elsewhere and goes round: what another has built, or is at, it passes by.
    children = [background.child([*names[start:], *names[:start]]) for start in starts]
    said = [(child, child.communicate()[1]) for child in children]
    return "\n".join(text for child, text in said if child.returncode)


def _modules_with_loops() -> Iterator[str]:
    for package in _PACKAGES:
        for module in iter_modules(import_module(package).__path__, f"{package}."):
            if any(sign in machine_code.text(module.name) for sign in _MAKES_SOME):
                yield module.name
