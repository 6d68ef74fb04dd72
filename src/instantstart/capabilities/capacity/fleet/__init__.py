"""The fleet: what the nodes of a cluster offer, what pods hold of it, what waits, and what stands idle. Reads only."""
