"""tf.flags: absl's flags, read from the command line when one is first asked for.

So a program needs no tf.app.run. Arguments that are no flags are left alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import absl.flags as _absl
from absl.flags import *

_OLD = {"flag_name": "name", "default_value": "default", "docstring": "help"}  # arguments of DEFINE_ before 1.5


class _Flags:
    """absl's FLAGS, parsed at the first use of one."""

    def __init__(self, flags: _absl.FlagValues):
        self.__dict__["_flags"] = flags

    def _parsed(self) -> _absl.FlagValues:
        if not self._flags.is_parsed():
            self(sys.argv, known_only=True)  # a notebook's or an executor's own arguments are no mistake
        return self._flags

    def __call__(self, argv: Any, known_only: bool = False) -> list[str]:
        """Read the flags of argv; what of it is none. Raises UnrecognizedFlagError on others, unless known_only."""
        return self._flags(argv, known_only=known_only)

    def _parse_flags(self, args: Any = None) -> dict[str, Any]:
        """Before 1.5: read them now; their values."""
        self([sys.argv[0], *(sys.argv[1:] if args is None else args)], known_only=True)
        return self._flags.flag_values_dict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parsed() if name in self._flags else self._flags, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._parsed() if name in self._flags else self._flags, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._flags, name)

    def __getitem__(self, name: str) -> Any:
        return self._flags[name]

    def __contains__(self, name: str) -> bool:
        return name in self._flags

    def __iter__(self) -> Any:
        return iter(self._flags)

    def __len__(self) -> int:
        return len(self._flags)

    def __dir__(self) -> list[str]:
        return dir(self._flags)


def _with_old_names(define: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(define)
    def defined(*args: Any, **kwargs: Any) -> Any:
        return define(*args, **{_OLD.get(name, name): value for name, value in kwargs.items()})

    return defined


_absl.disclaim_key_flags()  # flags are of the module that defines them by these functions: its `--help` shows them
globals()["FLAGS"] = _Flags(_absl.FLAGS)
for _name in _absl.__all__:
    if _name.startswith("DEFINE_"):
        globals()[_name] = _with_old_names(getattr(_absl, _name))
