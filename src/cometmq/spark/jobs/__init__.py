"""Jobs on the files of stores as Spark plans, for stores that take one machine too long."""
