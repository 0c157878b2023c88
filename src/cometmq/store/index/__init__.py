"""The Index: which messages have a key."""
