"""Kernels, and the loops that they and the readers of records are compiled from. `table` imports them all."""
