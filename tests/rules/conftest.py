"""Rules that other systems' failures teach: each test is named after one, and says whose it was."""

from tests.store.conftest import clock, disk, open_store

__all__ = ["clock", "disk", "open_store"]
