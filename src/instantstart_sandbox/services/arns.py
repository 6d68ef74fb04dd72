"""ARNs and the DNS suffix of a partition."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import botocore.session


@dataclass(frozen=True)
class Arn:
    """The parts of an ARN; ``region`` and ``account`` are empty where a service leaves them out."""

    partition: str
    service: str
    region: str
    account: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> Arn:
        """Split an ARN; ValueError when it is none."""
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn":
            raise ValueError(f"{text!r} is not an ARN")
        return cls(*parts[1:])

    @property
    def name(self) -> str:
        """What stands after the last slash: a role's, a cluster's, a plan's name."""
        return self.resource.rsplit("/", 1)[-1]


@functools.cache
def dns_suffix(partition: str) -> str:
    """The DNS suffix of a partition, from botocore's endpoint data."""
    resolver = botocore.session.get_session().get_component("endpoint_resolver")
    return str(resolver.get_partition_dns_suffix(partition))


def service_principals(service: str, partition: str) -> frozenset[str]:
    """How a trust policy may name a service; most services use the commercial suffix in every partition."""
    return frozenset({f"{service}.{dns_suffix('aws')}", f"{service}.{dns_suffix(partition)}"})
