"""Jobs on the files of stores, as Spark plans: what takes one machine too long."""
