"""KubeRay: the controllers of RayCluster and RayJob, which act while the operator's Deployment runs."""
