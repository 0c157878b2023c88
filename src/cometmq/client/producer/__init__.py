"""Producers: send messages, transactions, requests and replies."""
