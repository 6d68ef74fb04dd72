"""Guards over moto: where it is kinder than AWS, the call is refused or delayed as AWS does. One module per theme."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instantstart_sandbox.gateway.guards import (
    ec2_addresses,
    ec2_endpoints,
    ec2_interfaces,
    ec2_limits,
    ec2_network,
    ec2_offers,
    ec2_requests,
    ec2_tags,
    endpoint_services,
    iam_documents,
    public_images,
    s3_policies,
    stale,
)

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def install(world: World) -> None:
    """Register every guard; the first registered is the outermost."""
    for module in (
        ec2_requests,
        stale,
        ec2_limits,
        ec2_network,
        ec2_offers,
        ec2_endpoints,
        ec2_interfaces,
        ec2_addresses,
        ec2_tags,
        endpoint_services,
        iam_documents,
        public_images,
        s3_policies,
    ):
        module.install(world)
