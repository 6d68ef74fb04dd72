"""Which cluster is meant, and what reaching it takes: the parts of EKS DescribeCluster that the wire needs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ClusterRef:
    """One EKS cluster. ``endpoint`` is ``https://...``; ``ca_pem`` the PEM text (DescribeCluster gives it base64-encoded)."""

    arn: str
    name: str
    region: str
    endpoint: str
    ca_pem: str

    @property
    def partition(self) -> str:
        """``aws``, ``aws-cn`` or ``aws-us-gov``: the second part of the ARN."""
        return self.arn.split(":")[1]
