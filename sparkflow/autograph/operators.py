"""What `ag__` names in converted functions."""

from sparkflow.autograph.branches import if_exp, if_stmt
from sparkflow.autograph.calls import call
from sparkflow.autograph.loops import for_stmt, while_stmt
from sparkflow.autograph.values import Undefined, and_, assert_stmt, compared, eq, ld, not_, not_eq, of, or_

__all__ = [
    "Undefined", "and_", "assert_stmt", "call", "compared", "eq", "for_stmt", "if_exp", "if_stmt", "ld", "not_",
    "not_eq", "of", "or_", "while_stmt",
]  # fmt: skip
