"""Nodes: looked at, rebooted, replaced, deleted, moved, checked, and given new software."""
