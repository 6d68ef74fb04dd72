"""VPC endpoints: their type, service and routes are real, and the private ones take a while."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.guarding import refuse_if
from instantstart_sandbox.gateway.guards.backends import ec2, ec2_in, settle_address
from instantstart_sandbox.gateway.guards.endpoint_services import services
from instantstart_sandbox.gateway.registry import Context, Proceed

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def install(world: World) -> None:
    """Register the guards and the timers."""
    guard = world.registry.guard
    guard("ec2", "CreateVpcEndpoint")(_create)
    guard("ec2", "ModifyVpcEndpoint")(_modify)
    guard("ec2", "DeleteVpcEndpoints")(_delete)
    guard("ec2", "DeleteRouteTable")(_delete_route_table)
    world.clock.on("ec2.endpoint_ready", functools.partial(_ready, world))
    world.clock.on("ec2.endpoint_gone", functools.partial(_gone, world))


def _create(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
    backend = ec2(ctx)
    kind = params.get("VpcEndpointType") or "Gateway"
    _check_service(ctx, params.get("ServiceName", ""), kind)
    if kind == "Gateway":
        for table in params.get("RouteTableIds") or []:
            _check_table(backend, params["VpcId"], table, params["ServiceName"])
    else:
        _check_subnets(backend, params)
    answer = proceed()
    endpoint = backend.vpc_end_points[answer["VpcEndpoint"]["VpcEndpointId"]]
    endpoint.vpc_endpoint_type = kind
    if kind == "Interface":
        endpoint.state = "pending"
        for interface in (backend.enis[i] for i in endpoint.network_interface_ids):
            interface.description = f"VPC Endpoint Interface {endpoint.id}"
            interface._group_set = [backend.get_security_group_from_id(g) for g in endpoint.security_group_ids]
            settle_address(backend, interface)
        ctx.clock.after(ctx.world.settings.vpc_endpoint_seconds, "ec2.endpoint_ready", region=ctx.region, endpoint=endpoint.id)
    return {**answer, "VpcEndpoint": {**answer["VpcEndpoint"], "VpcEndpointType": kind, "State": endpoint.state}}


def _check_service(ctx: Context, name: str, kind: str) -> None:
    known = services(ctx.region)
    refuse_if(name not in known, "InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")
    refuse_if(
        kind not in known[name], "InvalidParameter", f"Endpoint type ({kind}) does not match available service types ({known[name]})."
    )


def _check_table(backend: Any, vpc: str, table: str, service: str) -> None:
    found = backend.route_tables.get(table)
    refuse_if(found is None, "InvalidRouteTableId.NotFound", f"The routeTable ID '{table}' does not exist")
    refuse_if(found.vpc_id != vpc, "InvalidParameter", f"Route table {table} does not belong to VPC {vpc}")
    for other in backend.vpc_end_points.values():
        if other.service_name == service and table in other.route_table_ids and other.state not in ("deleting", "deleted"):
            raise AwsError(
                "RouteAlreadyExists",
                f"route table {table} already has a route with destination-prefix-list-id {other.destination_prefix_list_id}",
            )


def _check_subnets(backend: Any, params: dict[str, Any]) -> None:
    zones: set[str] = set()
    for subnet in (backend.get_subnet(i) for i in params.get("SubnetIds") or []):
        refuse_if(subnet.vpc_id != params["VpcId"], "InvalidParameter", f"Subnet {subnet.id} does not belong to VPC {params['VpcId']}")
        zone = subnet.availability_zone
        refuse_if(
            zone in zones, "DuplicateSubnetsInSameZone", f"Found another VPC endpoint subnet in the availability zone of {subnet.id}."
        )
        zones.add(zone)


def _modify(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    """moto lists the tables and makes no routes, and then cannot delete the endpoint."""
    backend = ec2(ctx)
    endpoint = backend.get_vpc_end_point(params["VpcEndpointId"])
    before = list(endpoint.route_table_ids)
    added = [t for t in params.get("AddRouteTableIds") or [] if t not in before]
    for table in added:
        _check_table(backend, endpoint.vpc_id, table, endpoint.service_name)
    proceed()
    for table in added:
        backend.create_route(table, None, gateway_id=endpoint.id, destination_prefix_list_id=endpoint.destination_prefix_list_id)
    for table in params.get("RemoveRouteTableIds") or []:
        if table in before:
            _drop_route(backend, table, endpoint)


def _drop_route(backend: Any, table_id: str, endpoint: Any) -> None:
    table = backend.route_tables.get(table_id)
    if table is not None:
        kept = {k: r for k, r in table._routes.items() if r.gateway is None or r.gateway.id != endpoint.id}
        table._routes = kept


def _delete(ctx: Context, params: dict[str, Any], proceed: Proceed) -> dict[str, Any]:
    """Ids that do not exist are listed as unsuccessful; the others go after a while."""
    backend = ec2(ctx)
    failed = []
    for endpoint_id in params["VpcEndpointIds"]:
        endpoint = backend.vpc_end_points.get(endpoint_id)
        if endpoint is None or endpoint.state == "deleted":
            error = {"Code": "InvalidVpcEndpoint.NotFound", "Message": f"The Vpc Endpoint Id '{endpoint_id}' does not exist"}
            failed.append({"ResourceId": endpoint_id, "Error": error})
        elif endpoint.state != "deleting":
            endpoint.state = "deleting"
            for table in endpoint.route_table_ids:
                _drop_route(backend, table, endpoint)
            ctx.clock.after(ctx.world.settings.vpc_endpoint_delete_seconds, "ec2.endpoint_gone", region=ctx.region, endpoint=endpoint_id)
    return {"Unsuccessful": failed}


def _ready(world: World, region: str, endpoint: str) -> None:
    found = ec2_in(world.account, region).vpc_end_points.get(endpoint)
    if found is not None and found.state == "pending":
        found.state = "available"


def _gone(world: World, region: str, endpoint: str) -> None:
    backend = ec2_in(world.account, region)
    found = backend.vpc_end_points.pop(endpoint, None)
    if found is not None:
        for interface in found.network_interface_ids:
            backend.enis.pop(interface, None)


def _delete_route_table(ctx: Context, params: dict[str, Any], proceed: Proceed) -> None:
    """An endpoint forgets a table that is gone."""
    proceed()
    for endpoint in ec2(ctx).vpc_end_points.values():
        endpoint.route_table_ids = [t for t in endpoint.route_table_ids if t != params["RouteTableId"]]
