"""Everything that is served, on both paths."""
