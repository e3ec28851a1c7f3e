"""What tf.config sets: the ConfigProto of sessions that are given none."""

from __future__ import annotations

from sparkflow_runtime.wire.protos import ConfigProto

_config = ConfigProto()


def given_or_default(config: ConfigProto | None) -> ConfigProto | None:
    """The config that a session has that was given this one: its own, whatever tf.config says."""
    if config is not None or not _config.ByteSize():
        return config
    copy = ConfigProto()
    copy.CopyFrom(_config)
    return copy


def settings() -> ConfigProto:
    """What tf.config changes; for sessions that are made afterwards."""
    return _config
