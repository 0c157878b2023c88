"""Sockets: the asyncio server and client that carry the remoting protocol."""
