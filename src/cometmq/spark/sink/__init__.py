"""Write rows to live topics."""
