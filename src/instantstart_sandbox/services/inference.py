"""SageMaker endpoints of the HyperPod inference operator: made with its role, seen by DescribeEndpoint, called by InvokeEndpoint.

Model, endpoint configuration and endpoint are moto's; what an endpoint leads to is kept here (its calls: ``invocations``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod.state import clusters, eks_arn

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_CREATE_SECONDS, _CALL_SECONDS = 60.0, 60.0
_VARIANT = "AllTraffic"


def _held(world: World) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = world.section("inference_endpoints")
    return found


def tiered_storage(world: World, cluster: str) -> bool:
    """Whether the HyperPod cluster on an EKS cluster has tiered storage."""
    return any(eks_arn(c) == cluster and (c["tiered"] or {}).get("Mode") == "Enable" for c in clusters(world).values())


def register(world: World, cluster: str, name: str, role_arn: str, about: dict[str, str]) -> dict[str, Any]:
    """Make it once, then tell its state."""
    place, key = Arn.parse(cluster), f"{cluster}|{name}"
    client, held = world.client("sagemaker", place.region), _held(world).get(key)
    if held is None:
        try:
            arns = _create(client, name, role_arn)
        except ClientError as error:
            return {"state": "CreationFailed", "message": error.response["Error"]["Message"]}
        held = _held(world)[key] = {"ready": world.clock.now() + _CREATE_SECONDS, "about": about, "arns": arns}
        world.changed()
    state = "CreationCompleted" if held["ready"] <= world.clock.now() else "CreationInProgress"
    return {"state": state, **held["arns"]}


def _create(client: Any, name: str, role_arn: str) -> dict[str, str]:
    model, config = f"{name}-model", f"{name}-config"
    made = client.create_model(
        ModelName=model, ExecutionRoleArn=role_arn, PrimaryContainer={"Image": "hyperpod/endpoint", "Mode": "SingleModel"}
    )
    variant = {"VariantName": _VARIANT, "ModelName": model, "InitialInstanceCount": 1, "InstanceType": "ml.m5.xlarge"}
    written = client.create_endpoint_config(EndpointConfigName=config, ProductionVariants=[variant])
    endpoint = client.create_endpoint(EndpointName=name, EndpointConfigName=config)
    return {"modelArn": made["ModelArn"], "configArn": written["EndpointConfigArn"], "endpointArn": endpoint["EndpointArn"]}


def deregister(world: World, cluster: str, name: str) -> None:
    """Remove endpoint, configuration and model."""
    _held(world).pop(f"{cluster}|{name}", None)
    client = world.client("sagemaker", Arn.parse(cluster).region)
    for call, fields in (
        (client.delete_endpoint, {"EndpointName": name}),
        (client.delete_endpoint_config, {"EndpointConfigName": f"{name}-config"}),
        (client.delete_model, {"ModelName": f"{name}-model"}),
    ):
        try:
            call(**fields)
        except ClientError:
            continue  # it is gone already
    world.changed()


def behind(world: World, region: str, name: str) -> tuple[str, float, dict[str, str]] | None:
    """(cluster, the moment from which it is in service, what it leads to) of a region's endpoint; None when there is none."""
    for key, held in _held(world).items():
        cluster, _, known = key.partition("|")
        if known == name and Arn.parse(cluster).region == region:
            return cluster, held["ready"], held["about"]
    return None


def address(world: World, cluster: str, namespace: str, service: str, port: str = "http") -> tuple[str, int] | None:
    """Where a ready pod of a Service listens; asked in the clusters' own loop."""
    server: Any = world.kubernetes
    try:
        found = server.cluster(cluster)
    except (AttributeError, KeyError):
        return None
    if found.backend is None:
        return None
    asked = asyncio.run_coroutine_threadsafe(found.backend("services", namespace, service, port), found.loop)
    told: tuple[str, int] | None = asked.result(_CALL_SECONDS)
    return told
