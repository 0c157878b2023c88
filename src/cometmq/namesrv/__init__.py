"""The name server: knows which broker has which topic, and tells clients."""
