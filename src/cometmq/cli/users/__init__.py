"""The commands for users and their access control lists."""
