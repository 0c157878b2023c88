"""Every byte layout on the disk, and the only place that knows it: pure functions over bytes."""
