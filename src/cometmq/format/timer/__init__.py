"""The files of the timer: its wheel, its log, and how far it has come."""
