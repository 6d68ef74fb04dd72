"""Capacity: instance groups, nodes, training plans, Karpenter, the fleet. One slice for each noun (docs/decisions/0005)."""
