"""Handlers for the requests of operators and their tools."""
