"""What servers show of themselves over HTTP: metrics for Prometheus, and whether they are alive and ready.

Page: ``docs/internals/operators.md``.
"""
