"""HParams: what a flag may say of them, and what it may not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

HParams = tf.contrib.training.HParams


def params() -> Any:
    return HParams(rate=0.1, units=10, layers=[128, 64], act="relu", wide=True, names=("a", "b"), free=None)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("", {}),
        ("rate=1", {"rate": 1.0}),
        ("rate=-.5e-3,act=tanh", {"rate": -0.5e-3, "act": "tanh"}),
        ("layers=[10,20, 30]", {"layers": [10, 20, 30]}),
        ("layers=[7],units=3", {"layers": [7], "units": 3}),
        ("layers[1]=5,layers[0]=6", {"layers": [6, 5]}),
        ("names=[x,y/z],act=a.b", {"names": ["x", "y/z"], "act": "a.b"}),
        ("wide=false", {"wide": False}),
        ("wide=False, units = 4", {"wide": False, "units": 4}),
        ("wide=0", {"wide": False}),
        ("wide=true", {"wide": True}),
        ("act=", {"act": ""}),
        ("free=x", {"free": "x"}),
    ],
)
def test_what_a_flag_says(text: str, changed: dict[str, Any]) -> None:
    made = params()
    assert made.parse(text) is made
    assert made.values() == {**params().values(), **changed}
    assert all(type(made.get(name)) is type(value) for name, value in changed.items())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nope=1", "Unknown hyperparameter type for nope"),
        ("units=1.5", "Could not parse hparam 'units' of type 'int' with value '1.5' in units=1.5"),
        ("rate=fast", "Could not parse hparam 'rate' of type 'float'"),
        ("wide=no", "Could not parse hparam 'wide' of type 'bool'"),
        ("layers=[1,x]", "Could not parse hparam 'layers'"),
        ("units", "Malformed hyperparameter value: units"),
        ("layers=[1,2", "Malformed"),
        ("units=1,units=2", "Multiple assignments to variable 'units'"),
        ("layers[0]=1,layers[0]=2", "Multiple assignments to variable 'layers'"),
        ("layers=[1],layers[0]=2", "Multiple assignments to variable 'layers'"),
        ("layers[0]=[1]", "Assignment of a list to a list index"),
        ("layers=5", "Must pass a list for multi-valued parameter: layers"),
        ("units=[5]", "Must not pass a list for single-valued parameter: units"),
        ("layers[2]=5", r"layers\[2\]: the list has 2 items"),
    ],
)
def test_what_a_flag_may_not_say(text: str, says: str) -> None:
    made = params()
    with pytest.raises(ValueError, match=says):
        made.parse(text)
    assert made.values() == params().values()


def test_types_stay() -> None:
    made = params()
    made.set_hparam("rate", 2)
    made.set_hparam("units", np.int64(3))
    assert made.rate == 2.0 and isinstance(made.rate, float) and made.units == 3
    for name, value in (("units", 2.5), ("units", True), ("rate", "fast"), ("act", 3), ("wide", 1), ("rate", None)):
        with pytest.raises(ValueError, match=f"Could not cast hparam '{name}'"):
            made.set_hparam(name, value)
    with pytest.raises(KeyError, match="There is no hyperparameter 'nope'"):
        made.set_hparam("nope", 1)
    made.override_from_dict({"layers": [1], "act": "elu"})
    made.parse_json('{"names": ["c"], "free": "x"}')
    assert made.layers == [1] and made.act == "elu" and made.names == ["c"] and made.free == "x"


def test_names() -> None:
    made = params()
    for name in ("values", "parse", "units"):
        with pytest.raises(ValueError, match=f"Hyperparameter name is reserved: {name}"):
            made.add_hparam(name, 1)
    with pytest.raises(ValueError, match="cannot be empty: none"):
        made.add_hparam("none", [])
    made.del_hparam("units")
    assert "units" not in made and not hasattr(made, "units") and "rate" in made
    made.add_hparam("units", 7)
    assert made.get("units", 1) == 7 and made.get("nope", 5) == 5 and made.get("layers", [1]) == [128, 64]
    for name, default in (("units", "x"), ("units", [1]), ("layers", 1)):
        with pytest.raises(ValueError, match=r"is incompatible with default|Could not cast"):
            made.get(name, default)


def test_as_text() -> None:
    made = HParams(b=1, a=[1.5], f=len)
    assert json.loads(made.to_json(sort_keys=True)) == {"a": [1.5], "b": 1}
    assert repr(HParams(b=1, a="x")) == "HParams([('a', 'x'), ('b', 1)])" and str(HParams(a=1)) == "[('a', 1)]"
    made.set_model_structure("s")
    assert made.get_model_structure() == "s"
    parsed = tf.contrib.training.parse_values("b=2,zz=1", {"b": int}, ignore_unknown=True)
    assert parsed == {"b": 2}
