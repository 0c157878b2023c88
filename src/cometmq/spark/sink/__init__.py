"""The sink: rows become messages."""
