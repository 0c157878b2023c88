"""``cometmq store``: commands on a store directory."""
