"""Floor 0: what every room may know. Pure Python; no network, no database, no framework."""
