"""What tests of CometMQ, and of programs that use it, need: a disk in memory that can fill up and fail."""
