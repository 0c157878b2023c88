"""Background work of an open store: dispatch, write-back and checkpoint, retention, disk space."""
