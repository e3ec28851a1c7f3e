"""What is initialized before the first step: the job's variables once, by the chief; what belongs to one session (local
variables, look-up tables) by every worker, in evaluation and in prediction.

A Scaffold of the model's EstimatorSpec says it as it does to a MonitoredSession: `init_op`, with its feeds, and
`init_fn` for a training that begins; `local_init_op` for every session. Its savers are not used: the job has its own.
"""

from __future__ import annotations

from typing import Any

import sparkflow as tf

_KEYS = tf.GraphKeys


class Initial:
    """What a worker's training graph, which is the default graph, initializes."""

    def __init__(self, spec: Any):
        self._scaffold = spec.scaffold or tf.train.Scaffold()
        self._variables = tf.global_variables_initializer()
        self._own = own_init_ops(spec)

    def variables(self, session: Any) -> None:
        """All of the job's; by the chief, before a checkpoint gives them their values."""
        session.run(self._variables, self._scaffold.init_feed_dict)

    def begin(self, session: Any) -> None:
        """What the model adds where there is no checkpoint; by the chief."""
        if self._scaffold.init_op is not None:
            session.run(self._scaffold.init_op, self._scaffold.init_feed_dict)
        if self._scaffold.init_fn is not None:
            self._scaffold.init_fn(session)

    def own(self, session: Any) -> None:
        """What is this session's own; the variables have their values."""
        if self._own:
            session.run(self._own, self._scaffold.local_init_feed_dict)


def own_init_ops(spec: Any) -> list[Any]:
    """What initializes, in the default graph, what is a session's own: at most one op."""
    if spec.scaffold is not None and spec.scaffold.local_init_op is not None:
        return [spec.scaffold.local_init_op]
    if not any(map(tf.get_collection, (_KEYS.LOCAL_INIT_OP, _KEYS.LOCAL_VARIABLES, _KEYS.TABLE_INITIALIZERS))):
        return []
    make = tf.train.Scaffold.default_local_init_op
    return [tf.train.Scaffold.get_or_default("local_init_op", _KEYS.LOCAL_INIT_OP, make)]
