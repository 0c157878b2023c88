"""Report the content of many stores."""
