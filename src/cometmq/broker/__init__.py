"""The broker: RocketMQ's requests, answered from the store."""
