"""Work on stores without a broker: search, salvage, clean and status."""
