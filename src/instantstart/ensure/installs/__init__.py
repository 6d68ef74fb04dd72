"""What is put into a cluster and kept right there: releases of manifests, bundles, EKS add-ons, and how their workloads are."""
