"""Controllers: idempotent reconcile loops that are ordinary clients of the cluster's store."""
