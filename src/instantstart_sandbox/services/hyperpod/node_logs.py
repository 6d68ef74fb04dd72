"""What HyperPod writes to the user's CloudWatch Logs: one stream of the lifecycle script for each instance (facts A1.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moto.backends import get_backend

from instantstart_sandbox.services.arns import Arn
from instantstart_sandbox.services.hyperpod.state import Cluster, Node

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


def group_name(cluster: Cluster) -> str:
    """``/aws/sagemaker/Clusters/<cluster name>/<cluster id>``."""
    return f"/aws/sagemaker/Clusters/{cluster['name']}/{Arn.parse(cluster['arn']).name}"


def write(world: World, cluster: Cluster, node: Node, failed: bool) -> None:
    """Write the lifecycle script's output of one instance. The log group is made when it is first needed, and never removed.

    Straight into moto's backend: three calls for each of a thousand instances would hold the world's lock for seconds. And into the group
    itself: the window of moments that clients may write into is none of HyperPod's.
    """
    place = Arn.parse(cluster["arn"])
    logs: Any = get_backend("logs")[place.account][place.region]
    group, stream = group_name(cluster), f"LifecycleConfig/{node['group']}/{node['id']}"
    if group not in logs.groups:
        logs.create_log_group(group, {})
    if stream not in logs.groups[group].streams:
        logs.create_log_stream(group, stream)
    now = int(world.clock.now() * 1000)
    logs.groups[group].put_log_events(stream, [{"timestamp": now, "message": line} for line in _lines(cluster, node, failed)])


def _lines(cluster: Cluster, node: Node, failed: bool) -> list[str]:
    script = cluster["groups"][node["group"]]["spec"].get("LifeCycleConfig") or {}
    name = script.get("OnCreate", "the lifecycle script")
    end = f"[ERROR] {name} exited with status 1" if failed else f"[INFO] {name} completed successfully"
    return [f"[INFO] Downloading {script.get('SourceS3Uri', '')}", f"[INFO] Running {name} on {node['id']}", end]
