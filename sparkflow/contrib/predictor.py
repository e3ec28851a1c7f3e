"""tf.contrib.predictor: a SavedModel, or what an Estimator has learned, as a function from arrays to arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkflow import train
from sparkflow.estimator import Estimator, ModeKeys, export
from sparkflow.framework.graph import Graph
from sparkflow.saved_model import loader, signature_constants, tag_constants
from sparkflow.session.session import Session


class Predictor:
    """predictor({name of an input: array}) is {name of an output: array}, in a session of its own."""

    def __init__(self, session: Session, inputs: Mapping[str, Any], outputs: Mapping[str, Any]):
        self._session, self._inputs, self._outputs = session, dict(inputs), dict(outputs)

    session = property(lambda self: self._session)
    graph = property(lambda self: self._session.graph)
    feed_tensors = property(lambda self: self._inputs)
    fetch_tensors = property(lambda self: self._outputs)

    def __call__(self, input_dict: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ValueError on a name that is no input."""
        unknown = sorted(set(input_dict) - set(self._inputs))
        if unknown:
            raise ValueError(f"Got unexpected keys in input_dict: {unknown}. Expected: {sorted(self._inputs)}")
        return self._session.run(self._outputs, {self._inputs[name]: value for name, value in input_dict.items()})

    def __repr__(self) -> str:
        return f"Predictor with feed tensors {self._inputs} and fetch_tensors {self._outputs}"


def from_saved_model(
    export_dir: str, signature_def_key: str | None = None, signature_def: Any = None,
    input_names: Mapping[str, str] | None = None, output_names: Mapping[str, str] | None = None,
    tags: str | None = None, graph: Graph | None = None, config: Any = None,
) -> Predictor:  # fmt: skip
    """What a SavedModel computes: one of its signatures (serving_default), or from tensors to tensors by their names.

    tags: as "a,b". Raises ValueError where the model has no such signature.
    """
    chosen = tags.split(",") if tags else [tag_constants.SERVING]
    session = Session(graph=graph or Graph(), config=config)
    with session.graph.as_default():
        meta = loader.load(session, chosen, export_dir)
    if input_names is None or output_names is None:
        key = signature_def_key or signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if signature_def is None:
            if key not in meta.signature_def:
                raise ValueError(
                    f"Got signature_def_key {key!r}. Available signatures are {sorted(meta.signature_def)}"
                )
            signature_def = meta.signature_def[key]
        input_names = {name: info.name for name, info in signature_def.inputs.items()}
        output_names = {name: info.name for name, info in signature_def.outputs.items()}
    find = session.graph.get_tensor_by_name
    return Predictor(
        session, {k: find(v) for k, v in input_names.items()}, {k: find(v) for k, v in output_names.items()}
    )


def from_estimator(
    estimator: Estimator, serving_input_receiver_fn: Callable[[], Any], output_key: str | None = None,
    graph: Graph | None = None, config: Any = None,
) -> Predictor:  # fmt: skip
    """What the newest checkpoint of an Estimator predicts: its inputs are the receiver's tensors, its outputs those of
    one of EstimatorSpec.export_outputs, the default one where output_key is not given.

    Raises TypeError where `estimator` is none, ValueError where it has no checkpoint, KeyError where the model has no
    such output.
    """
    if not isinstance(estimator, Estimator):
        raise TypeError(f"Expected estimator to be an instance of `tf.estimator.Estimator`, got {type(estimator)}")
    path = estimator._checkpoint(None)
    with (graph or Graph()).as_default():
        train.get_or_create_global_step()
        receiver = serving_input_receiver_fn()
        features, given = export.checked_receiver(receiver)
        spec = estimator._call(features, None, ModeKeys.PREDICT)
        found = export.outputs_of(spec)
        key = output_key or signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        if key not in found:
            raise KeyError(f"output_key must be one of {sorted(found)}, got {key!r}")
        signature = found[key].as_signature_def(given)
        creator = train.ChiefSessionCreator(spec.scaffold, config=config, checkpoint_filename_with_path=path)
        session = creator.create_session()
        find = session.graph.get_tensor_by_name
        outputs = {name: find(info.name) for name, info in signature.outputs.items()}
        return Predictor(session, given, outputs)
