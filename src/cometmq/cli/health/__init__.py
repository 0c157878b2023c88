"""The commands that show how a cluster is: what is wrong with it, and what passes through it."""
