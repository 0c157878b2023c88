"""Handling: how the messages of a queue are pulled, given to a handler, and tried again when it fails."""
