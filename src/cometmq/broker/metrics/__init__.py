"""What a broker shows at ``/metrics`` and ``/readyz``: read from its pointers and tables for each scrape."""
