"""From an empty account to a verified HyperPod cluster: EKS, connection, dependencies, HyperPod, storage, verify, delete."""
