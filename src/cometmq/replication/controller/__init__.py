"""Controller mode: RocketMQ's controller elects the master of a broker set, and its brokers follow."""
