"""Report what is in many stores."""
