"""The name server, which knows the brokers of each topic."""
