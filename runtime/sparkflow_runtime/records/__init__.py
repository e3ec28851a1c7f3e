"""Record files, and the messages in them."""
