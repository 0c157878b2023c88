"""Compile kernels, cache their machine code, and load them while the process serves."""
