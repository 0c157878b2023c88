"""Find messages in stores."""
