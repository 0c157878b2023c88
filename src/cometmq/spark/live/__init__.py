"""Live topics in Spark: what the source "rocketmq" does when it is given name servers instead of a path."""
