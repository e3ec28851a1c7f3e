"""Tracked: what train.Checkpoint saves the attributes of."""

from __future__ import annotations


class Tracked:
    """The base of objects that hold variables, and other such objects, by their public attributes."""

    def _named_parts(self) -> list[tuple[str, object]] | None:
        """(name, object) of what is saved of it, where that is not its attributes."""
        return None

    _holds_nothing_else = False  # whether another attribute is a mistake
