"""Upkeep of an open store: dispatch, checkpoints, retention, the disk's space."""
