"""Java's own rules, by which RocketMQ writes and finds things: hashes, numbers, fastjson."""
