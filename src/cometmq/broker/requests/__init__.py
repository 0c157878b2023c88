"""Handlers of clients' requests."""
