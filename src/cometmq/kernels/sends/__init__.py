"""Kernels for sends: from the bytes of a socket read to records, queue entries and responses."""
