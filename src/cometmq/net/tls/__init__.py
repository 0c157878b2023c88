"""TLS: of clients and of servers, from PEM files."""
