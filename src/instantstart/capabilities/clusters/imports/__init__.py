"""Import of a cluster that others made: looked at, what is wrong named with its cure, nothing changed without being asked."""
