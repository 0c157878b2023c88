"""Texts inside kernels: UTF-8, JSON, properties, and numbers of equal texts."""
