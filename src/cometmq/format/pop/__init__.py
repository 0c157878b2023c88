"""The formats of pop consumption: check points, acknowledgements, receipt handles and what answers list."""
