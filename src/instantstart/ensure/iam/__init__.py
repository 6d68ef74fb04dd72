"""Roles, trust and permissions: what may act as what, and what it may do. Nothing that is not ours is changed."""
