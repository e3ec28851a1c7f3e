"""tf.contrib.hooks: what became tf.train's."""

from sparkflow.train import ProfilerHook

__all__ = ["ProfilerHook"]
