"""tf.contrib.training.HParams: named values whose types stay as they began, and that programs read from a flag."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Mapping
from typing import Any

_ASSIGNMENT = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*(\[\s*(?P<index>\d+)\s*\])?\s*=\s*"
    r"(\[(?P<listed>[^\]]*)\]|(?P<value>[^,\[]*?))\s*(,|$)"
)


def parse_values(values: str, type_map: Mapping[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """'a=1,b=[x,y],c[2]=0.5' as {"a": 1, "b": ["x", "y"], "c": {2: 0.5}}, of the types that type_map has for the names.

    Raises ValueError on what is written otherwise, is of another type, or is assigned twice.
    """
    found: dict[str, Any] = {}
    at = 0
    while at < len(values):
        match = _ASSIGNMENT.match(values, at)
        if match is None:
            raise ValueError(f"Malformed hyperparameter value: {values[at:]}")
        at = match.end()
        name, index, listed = match["name"], match["index"], match["listed"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(f"Unknown hyperparameter type for {name}; there are {', '.join(type_map)}")
        known = found.get(name)
        if name in found and not (index and isinstance(known, dict) and int(index) not in known):
            raise ValueError(f"Multiple assignments to variable '{name}' in {values}")
        if index and listed is not None:
            raise ValueError(f"Assignment of a list to a list index: {name}[{index}] in {values}")
        if listed is not None:
            found[name] = [_parsed(name, item, type_map[name], values) for item in re.split("[ ,]+", listed) if item]
        elif index:
            found.setdefault(name, {})[int(index)] = _parsed(name, match["value"], type_map[name], values)
        else:
            found[name] = _parsed(name, match["value"], type_map[name], values)
    return found


def _parsed(name: str, text: str, kind: type, values: str) -> Any:
    try:
        if kind is bool:
            return text in ("true", "True") or (text not in ("false", "False") and bool(int(text)))
        return text if kind is type(None) else kind(text)
    except ValueError:
        raise ValueError(
            f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{text}' in {values}"
        ) from None


def _cast(name: str, kind: type, value: Any) -> Any:
    """As that type, where nothing is lost: an int becomes a float, a float no int; booleans, numbers and strings stay
    among themselves. What began as None may become anything."""
    lost = (
        (issubclass(kind, (str, bytes)) and not isinstance(value, (str, bytes)))
        or issubclass(kind, bool) != isinstance(value, bool)
        or (issubclass(kind, numbers.Integral) and not isinstance(value, numbers.Integral))
        or (issubclass(kind, numbers.Number) and not isinstance(value, numbers.Number))
    )
    if kind is type(None):
        return value
    if lost:
        raise ValueError(f"Could not cast hparam '{name}' of type '{kind.__name__}' from value {value!r}")
    return kind(value)


class HParams:
    """Named values, as attributes. What one begins as says its type, and whether it is a list; `parse` reads them."""

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **values: Any):
        if hparam_def is not None:
            raise ValueError("HParams: hparam_def is not read here; give the values by their names")
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in values.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Raises ValueError where there is such an attribute, or the value is a list of nothing."""
        if getattr(self, name, None) is not None:
            raise ValueError(f"Hyperparameter name is reserved: {name}")
        several = isinstance(value, (list, tuple))
        if several and not value:
            raise ValueError(f"Multi-valued hyperparameters cannot be empty: {name}")
        self._hparam_types[name] = (type(value[0] if several else value), several)
        setattr(self, name, value)

    def set_hparam(self, name: str, value: Any) -> None:
        """A new value for one that is there; a dict gives some of a list's items by their places. Raises KeyError on
        another name, ValueError where the type is not what it was."""
        if name not in self._hparam_types:
            raise KeyError(f"There is no hyperparameter {name!r}; there are {', '.join(self._hparam_types)}")
        kind, several = self._hparam_types[name]
        if several and isinstance(value, dict):
            setattr(self, name, self._with_items(name, kind, value))
        elif isinstance(value, list):
            if not several:
                raise ValueError(f"Must not pass a list for single-valued parameter: {name}")
            setattr(self, name, [_cast(name, kind, item) for item in value])
        elif several:
            raise ValueError(f"Must pass a list for multi-valued parameter: {name}.")
        else:
            setattr(self, name, _cast(name, kind, value))

    def _with_items(self, name: str, kind: type, items: Mapping[int, Any]) -> list[Any]:
        changed = list(getattr(self, name))
        for index, item in items.items():
            if index >= len(changed):
                raise ValueError(f"{name}[{index}]: the list has {len(changed)} items")
            changed[index] = _cast(name, kind, item)
        return changed

    def del_hparam(self, name: str) -> None:
        if name in self._hparam_types:
            delattr(self, name)
            del self._hparam_types[name]

    def get(self, key: str, default: Any = None) -> Any:
        """The value, or `default` where there is none. Raises ValueError where `default` is not of its type."""
        if key not in self._hparam_types:
            return default
        if default is not None:
            kind, several = self._hparam_types[key]
            if isinstance(default, list) != several:
                shape = f"[{kind.__name__}]" if several else kind.__name__
                raise ValueError(f"Hparam '{key}' of type '{shape}' is incompatible with default={default}")
            for item in default if several else [default]:
                _cast(key, kind, item)
        return getattr(self, key)

    def values(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._hparam_types}

    def override_from_dict(self, values_dict: Mapping[str, Any]) -> HParams:
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def parse(self, values: str) -> HParams:
        """'name=value,...'; lists as 'name=[1,2]', an item of one as 'name[1]=2'.

        Raises ValueError as parse_values does, and where a list is given for what is none, or the other way round.
        """
        types = {name: kind for name, (kind, _) in self._hparam_types.items()}
        return self.override_from_dict(parse_values(values, types))

    def parse_json(self, values_json: str) -> HParams:
        return self.override_from_dict(json.loads(values_json))

    def to_json(self, indent: int | None = None, separators: Any = None, sort_keys: bool = False) -> str:
        """Without functions, which JSON has no word for."""
        shown = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(shown, indent=indent, separators=separators, sort_keys=sort_keys)

    def set_model_structure(self, model_structure: Any) -> None:
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        return self._model_structure

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __str__(self) -> str:
        return str(sorted(self.values().items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"
