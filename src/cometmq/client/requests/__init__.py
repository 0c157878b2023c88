"""Requests of consumers: pulls, pops, offsets, heartbeats, and the bodies that come."""
