"""``make demo``: the whole product end to end."""
