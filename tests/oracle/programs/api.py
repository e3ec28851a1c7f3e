"""Public functions that build more than one node."""
