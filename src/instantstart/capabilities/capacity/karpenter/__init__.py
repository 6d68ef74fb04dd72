"""Managed Karpenter: switched on and off as a whole, and the node pools by which it makes nodes for pods that wait."""
