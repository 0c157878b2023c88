"""RocketMQ's stored formats as pure functions: bytes in, values out; no files, clock or sockets."""
