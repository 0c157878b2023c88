"""Handlers for the requests of producers and consumers."""
