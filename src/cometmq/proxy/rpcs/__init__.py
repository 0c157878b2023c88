"""The rpcs, a module for each group of them."""
