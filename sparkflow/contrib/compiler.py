"""tf.contrib.compiler: scopes for TensorFlow's compiler, which change nothing here, and its way to call a function."""

from types import SimpleNamespace as _SimpleNamespace

from sparkflow.xla import experimental as _experimental

jit = _SimpleNamespace(experimental_jit_scope=_experimental.jit_scope)
xla = _SimpleNamespace(compile=_experimental.compile)

__all__ = ["jit", "xla"]
