"""The embedded sandbox: a small, unkind AWS region and its Kubernetes clusters, behind real HTTP.

Nothing in here is imported by ``instantstart``; the two meet on the wire only.
"""
