"""Network interfaces: their type is kept, and those in use or of a service cannot be removed by the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guards.backends import ec2
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def install(world: World) -> None:
    """Register the guards."""
    guard = world.registry.guard
    guard("ec2", "CreateNetworkInterface")(_create)
    guard("ec2", "DeleteNetworkInterface")(_delete)
    guard("ec2", "TerminateInstances")(_terminate)
    guard("ec2", "ModifyNetworkInterfaceAttribute", "AssignPrivateIpAddresses", "UnassignPrivateIpAddresses")(_modify)


def _create(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """moto stores every interface as ``interface``."""
    kind = params.get("InterfaceType")
    if kind is None:
        return None
    answer = proceed()
    ec2(ctx).enis[answer["NetworkInterface"]["NetworkInterfaceId"]].interface_type = kind
    return {**answer, "NetworkInterface": {**answer["NetworkInterface"], "InterfaceType": kind}}


def _delete(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    interface = ec2(ctx).enis.get(params["NetworkInterfaceId"])
    if interface is None:
        return
    if interface.status == "in-use" or interface.instance is not None:
        raise AwsError("InvalidParameterValue", f"Network interface '{interface.id}' is currently in use.")
    if interface.requester_managed:
        raise AwsError("OperationNotPermitted", "You are not allowed to manage this network interface: a service made it.")


def _terminate(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any] | None:
    """The primary interface, made with the instance, goes with it; moto keeps it, and with it the security group."""
    answer, backend = proceed(), ec2(ctx)
    ended = set(params.get("InstanceIds") or ())
    for interface in [i for i in backend.enis.values() if i.instance is not None and i.instance.id in ended]:
        if interface.device_index in (0, None):
            backend.enis.pop(interface.id, None)
    return answer


def _modify(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    interface = ec2(ctx).enis.get(params["NetworkInterfaceId"])
    if interface is not None and interface.requester_managed:
        raise AwsError("AuthFailure", "You do not have permission to access the specified resource.", 403)
