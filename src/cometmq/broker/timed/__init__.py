"""Messages that wait: delayed, timed, and those of open transactions."""
