"""Consumers: push, pull and lite pull."""
