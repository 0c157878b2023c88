"""The leaf operation on acknowledgements of popped messages, in plain Python and compiled."""
