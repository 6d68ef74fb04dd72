"""SageMaker endpoints of the HyperPod inference operator: made with its role, seen by DescribeEndpoint, called by InvokeEndpoint.

Model, endpoint configuration and endpoint are moto's; what an endpoint leads to is kept here. ``InvokeEndpoint`` relays the body to the
endpoint's Service in the cluster, as the private link to its load balancer does.
"""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from instantstart_sandbox.gateway.errors import AwsError
from instantstart_sandbox.gateway.registry import Context
from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod.state import clusters, eks_arn

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_CREATE_SECONDS, _CALL_SECONDS = 60.0, 60.0
_VARIANT = "AllTraffic"


def _held(world: World) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = world.section("inference_endpoints")
    return found


def install(world: World) -> None:
    """Own the one call that goes to the pods."""
    world.registry.op("sagemaker-runtime", "InvokeEndpoint")(invoke_endpoint)


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


def invoke_endpoint(ctx: Context, EndpointName: str, Body: Any = b"", **headers: Any) -> dict[str, Any]:
    """One call, relayed to a ready pod behind the endpoint."""
    found = [(k.partition("|")[0], h) for k, h in _held(ctx.world).items() if k.endswith(f"|{EndpointName}")]
    found = [(cluster, h) for cluster, h in found if Arn.parse(cluster).region == ctx.region]
    if not found:
        raise AwsError("ValidationError", f"Endpoint {EndpointName} of account {ctx.account} not found.")
    cluster, held = found[0]
    address = _address(ctx.world, cluster, held["about"])
    if address is None or held["ready"] > ctx.clock.now():
        raise AwsError("ServiceUnavailable", "The endpoint has no healthy target.", 503)
    path = held["about"].get("path") or "invocations"
    url = f"http://{address[0]}:{address[1]}/{path.lstrip('/')}"
    body = Body.read() if hasattr(Body, "read") else Body
    kind = headers.get("ContentType") or "application/json"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, {"Content-Type": kind}), timeout=_CALL_SECONDS) as answer:
            told = answer.headers.get("Content-Type", "application/json")
            return {"Body": answer.read(), "ContentType": told, "InvokedProductionVariant": _VARIANT}
    except urllib.error.HTTPError as error:
        text = error.read().decode(errors="replace")[:1000]
        raise AwsError("ModelError", f'Received client error ({error.code}) from primary with message "{text}".', 424) from error
    except OSError as error:
        raise AwsError("ServiceUnavailable", str(error), 503) from error


def _address(world: World, cluster: str, about: dict[str, str]) -> tuple[str, int] | None:
    """Where a ready pod of the endpoint listens; asked in the clusters' own loop."""
    server: Any = world.kubernetes
    try:
        found = server.cluster(cluster)
    except (AttributeError, KeyError):
        return None
    if found.backend is None:
        return None
    asked = asyncio.run_coroutine_threadsafe(
        found.backend("services", about["namespace"], f"{about['endpoint']}-service", "http"), found.loop
    )
    address: tuple[str, int] | None = asked.result(_CALL_SECONDS)
    return address
