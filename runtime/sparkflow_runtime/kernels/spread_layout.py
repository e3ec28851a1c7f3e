"""What the machine code of spread products and its callers agree on: the words (int64) of a table."""

from __future__ import annotations

# Addresses: of its distinct rows, of the places of the batch's rows among these, of its first row of the weights, of
# where the sums of the gradients of its rows go (0: nowhere), and of its first row of the weights' gradient.
ROWS, PLACES, WEIGHTS, SUMS, GRADIENT = range(5)
COUNT, WIDTH = 5, 6  # distinct rows, and numbers of each
WORDS = 8
LINE = 64
LANES = LINE // 4  # numbers of a vector of columns, which is a line, though of two registers on some processors
TURNED = 8  # rows and columns of a block that is turned round; vectors of so many lanes suit narrow tables
