"""Clusters that somebody else made, for scenarios: Slurm clusters, failed ones (cases 15 and 21)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instantstart_sandbox.services.hyperpod.create import new_group
from instantstart_sandbox.services.hyperpod.state import Cluster, clusters, new_cluster_id

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World

_GROUP = "controller-machine"


def foreign_cluster(world: World, name: str, region: str | None = None, status: str = "InService", failure: str = "") -> Cluster:
    """Put a cluster without Orchestrator (Slurm, from before the field existed) into a region; one group, no nodes.

    ``status`` is any ClusterStatus; ``failure`` its FailureMessage.
    """
    place = region or world.region
    partition = world.partition(place)
    spec = {
        "InstanceGroupName": _GROUP,
        "InstanceType": "ml.m5.xlarge",
        "InstanceCount": 0,
        "ExecutionRole": f"arn:{partition}:iam::{world.account}:role/somebody-elses-role",
        "LifeCycleConfig": {"SourceS3Uri": "s3://sagemaker-somebody-else/scripts", "OnCreate": "on_create.sh"},
        "ThreadsPerCore": 1,
    }
    cluster: Cluster = {
        "arn": f"arn:{partition}:sagemaker:{place}:{world.account}:cluster/{new_cluster_id()}",
        "name": name,
        "created": world.clock.utc(),
        "status": status,
        "failure": failure,
        "recovery": "Automatic",
        "tags": [],
        "groups": {_GROUP: new_group(world, spec, restricted=False) | {"status": "Failed" if status == "Failed" else "InService"}},
        "nodes": {},
        "events": [],
        "operations": [],
        "adds": {},
        "built": True,
        "shortage": "",
    }
    cluster |= dict.fromkeys(("vpc", "orchestrator", "tiered", "mode", "role", "autoscaling", "rig_config", "before"))
    clusters(world)[cluster["arn"]] = cluster
    world.changed()
    return cluster
