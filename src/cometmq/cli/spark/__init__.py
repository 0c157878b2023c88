"""``cometmq spark``: jobs on store files."""
