"""HyperPod clusters, instance groups and nodes, what a region offers, training plans, Karpenter, and how nodes are emptied."""
