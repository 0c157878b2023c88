"""The files of a store: their folders and chains, disk space, and what is set aside."""
