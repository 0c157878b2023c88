"""Work on stores without a broker: search, salvage and clean."""
