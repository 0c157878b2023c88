"""Time and files behind one small interface each, so that tests can replace them."""
