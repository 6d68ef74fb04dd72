"""Scaling: one KEDA ScaledObject for each deployment or pool, by queries that were tried."""
