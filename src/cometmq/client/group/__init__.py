"""Membership in a consumer group: heartbeats, rebalancing, locks."""
