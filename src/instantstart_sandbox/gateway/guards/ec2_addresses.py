"""NAT gateways take their time, and elastic addresses in use stay."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guarding import refuse_if
from instantstart_sandbox.gateway.guards.backends import ec2, ec2_in, settle_address
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

#: EC2 shows a failed or deleted gateway for about an hour
_SHOWN_SECONDS = 3600.0
_FAILS_AFTER_SECONDS = 10.0


def install(world: World) -> None:
    """Register the guards and the timers."""
    guard = world.registry.guard
    guard("ec2", "CreateNatGateway")(_create_nat)
    guard("ec2", "DeleteNatGateway")(_delete_nat)
    guard("ec2", "DescribeNatGateways")(_describe_nat)
    guard("ec2", "ReleaseAddress")(_release)
    guard("ec2", "DisassociateAddress")(_disassociate)
    for event, handler in (
        ("ec2.nat_ready", _ready),
        ("ec2.nat_failed", _failed),
        ("ec2.nat_deleted", _deleted),
        ("ec2.nat_forgotten", _forgotten),
    ):
        world.clock.on(event, functools.partial(handler, world))


def _create_nat(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
    private = params.get("ConnectivityType") == "private"
    refuse_if(not private and not params.get("AllocationId"), "MissingParameter", "The request must include the AllocationId parameter.")
    answer = proceed()
    backend = ec2(ctx)
    gateway = backend.nat_gateways[answer["NatGateway"]["NatGatewayId"]]
    gateway.state = "pending"
    gateway._eni.description = f"Interface for NAT Gateway {gateway.id}"
    gateway.private_ip = gateway.address_set[0]["privateIp"] = settle_address(backend, gateway._eni)
    attached = any(i.vpc is not None and i.vpc.id == gateway.vpc_id for i in backend.internet_gateways.values())
    if private or attached:
        ctx.clock.after(ctx.world.settings.nat_gateway_seconds, "ec2.nat_ready", region=ctx.region, gateway=gateway.id)
    else:
        ctx.clock.after(_FAILS_AFTER_SECONDS, "ec2.nat_failed", region=ctx.region, gateway=gateway.id)
    view = answer["NatGateway"]
    addresses = [{**a, "PrivateIp": gateway.private_ip} for a in view.get("NatGatewayAddresses", [])]
    return {**answer, "NatGateway": {**view, "State": "pending", "NatGatewayAddresses": addresses}}


def _gateway(world: World, region: str, gateway: str) -> Any:
    return ec2_in(world.account, region).nat_gateways.get(gateway)


def _ready(world: World, region: str, gateway: str) -> None:
    found = _gateway(world, region, gateway)
    if found is not None and found.state == "pending":
        found.state = "available"


def _failed(world: World, region: str, gateway: str) -> None:
    found = _gateway(world, region, gateway)
    if found is None or found.state != "pending":
        return
    found.state, found.failure_code = "failed", "Gateway.NotAttached"
    found.failure_message = f"Network {found.vpc_id} has no Internet gateway attached"
    _let_go(world, region, found)
    world.clock.after(_SHOWN_SECONDS, "ec2.nat_forgotten", region=region, gateway=gateway)


def _delete_nat(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
    found = ec2(ctx).nat_gateways.get(params["NatGatewayId"])
    if found is None or found.state == "deleted":
        raise AwsError("NatGatewayNotFound", f"The Nat Gateway {params['NatGatewayId']} was not found")
    if found.state != "deleting":
        found.state = "deleting"
        ctx.clock.after(ctx.world.settings.nat_gateway_delete_seconds, "ec2.nat_deleted", region=ctx.region, gateway=found.id)
    return {"NatGatewayId": found.id}


def _deleted(world: World, region: str, gateway: str) -> None:
    found = _gateway(world, region, gateway)
    if found is None:
        return
    found.state, found.delete_time = "deleted", world.clock.utc()
    _let_go(world, region, found)
    world.clock.after(_SHOWN_SECONDS, "ec2.nat_forgotten", region=region, gateway=gateway)


def _let_go(world: World, region: str, gateway: Any) -> None:
    """Free the address and remove the interface."""
    backend = ec2_in(world.account, region)
    for address in backend.addresses:
        if address.eni is not None and address.eni.id == gateway._eni.id:
            address.eni = address.instance = address.association_id = None
    backend.enis.pop(gateway._eni.id, None)


def _forgotten(world: World, region: str, gateway: str) -> None:
    ec2_in(world.account, region).nat_gateways.pop(gateway, None)


def _describe_nat(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    """moto answers an empty list for an unknown id."""
    known = ec2(ctx).nat_gateways
    missing = next((i for i in params.get("NatGatewayIds") or [] if i not in known), None)
    refuse_if(missing, "NatGatewayNotFound", f"The Nat Gateway {missing} was not found")


def _release(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    for address in ec2(ctx).addresses:
        named = address.allocation_id == params.get("AllocationId") or address.public_ip == params.get("PublicIp")
        refuse_if(named and address.association_id, "InvalidIPAddress.InUse", f"The address {address.public_ip} is in use.")


def _disassociate(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    for address in ec2(ctx).addresses:
        if address.association_id == params.get("AssociationId") and address.eni is not None and address.eni.requester_managed:
            raise AwsError("AuthFailure", "You do not have permission to access the specified resource.", 403)
