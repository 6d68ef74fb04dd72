"""Managed features of a cluster: what is on, switched by difference, with the identity chains they rest on."""
