"""Pools: warm workers that are given to businesses by one label."""
