"""Managed Karpenter: HyperPod's controller over NodePool, NodeClaim and HyperpodNodeClass. It runs while AutoScaling is InService.

Read ``definitions`` (what is served), ``offers`` (what a group could give), then the loops: ``node_classes`` and ``node_pools`` (their
conditions), ``provisioning`` (pods that wait become claims), ``claims`` (a claim becomes a node, and ends with it), ``disruption``
(idle and old nodes go). What is simple: docs/kubernetes-fidelity.md.
"""
