"""Name servers: which address a broker announces there, its registrations, and routes of other brokers."""
