"""Text has no slope."""

from __future__ import annotations

from sparkflow.grads.registry import not_differentiable

not_differentiable("StringFormat", "PrintV2")
