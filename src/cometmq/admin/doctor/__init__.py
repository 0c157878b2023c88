"""Examine name servers, brokers and a broker's machine: what is wrong, and the remedy (cometmq doctor)."""
