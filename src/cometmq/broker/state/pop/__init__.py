"""The state of pop consumption that is saved: pops in order, and how groups get their messages."""
