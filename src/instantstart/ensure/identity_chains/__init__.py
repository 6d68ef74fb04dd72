"""Identity chains (service account, role, policy, trust), declared as data, run both ways, verified link by link."""
