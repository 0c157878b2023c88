"""The frames of requests: read once, into rows that all behind go by."""
