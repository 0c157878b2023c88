"""What operators do, as functions that return values; the command line prints them."""
