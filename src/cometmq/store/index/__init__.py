"""The Index: messages by key."""
