"""The collections of losses, and their sum."""

from __future__ import annotations

from typing import Any

from sparkflow.framework.apply import constant
from sparkflow.framework.graph import get_default_graph
from sparkflow.framework.graph_keys import GraphKeys
from sparkflow.ops import math


def add_loss(loss: Any, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Any]:
    return list(get_default_graph().get_collection(loss_collection, scope))


def get_regularization_losses(scope: str | None = None) -> list[Any]:
    return list(get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope))


def get_regularization_loss(scope: str | None = None, name: str = "total_regularization_loss") -> Any:
    """The sum of the regularization losses, a scalar; 0 when there are none."""
    losses = get_regularization_losses(scope)
    return math.add_n(losses, name=name) if losses else constant(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None) -> Any:
    """The sum of all collected losses. Raises ValueError when there are none."""
    losses = get_losses(scope)
    if add_regularization_losses:
        losses += get_regularization_losses(scope)
    return math.add_n(losses, name=name)
