"""Address ranges, subnets, security groups, the network plugin, and what Kubernetes leaves in a VPC."""
