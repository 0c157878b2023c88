"""The broker's state: topics, groups, offsets, locks, members, and the tables that keep it on the disk."""
