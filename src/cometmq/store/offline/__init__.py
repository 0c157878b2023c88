"""Stores that no broker runs: inspect, search, salvage and clean them."""
