"""What may be asked of nodes. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Target, subject

#: as many as four calls of AWS take; a wish for more is a wish for the whole group
MOST_NODES = 100
NodeId = Annotated[str, Field(min_length=1, max_length=140, pattern=patterns.PRINTABLE)]
Nodes = Annotated[
    list[NodeId],
    Field(
        min_length=1,
        max_length=MOST_NODES,
        description="The nodes, each by instance id (i-...), Kubernetes name (hyperpod-i-...) or logical id.",
        examples=[["i-0123456789abcdef0"]],
    ),
]
DrainMinutes = Annotated[
    int,
    Field(ge=0, le=1440, description="How long pods get to leave within their disruption budgets before a person decides. 0: no drain."),
]
GroupName = Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.INSTANCE_GROUP, description="Name of the instance group.")]
Check = Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]


class RebootNodes(Ask):
    """Ask for a reboot: the instances stay, with their volumes and names."""

    nodes: Nodes
    drain_minutes: DrainMinutes = 15


class ReplaceNodes(Ask):
    """Ask for other instances in place of these: the data on their volumes is lost, names change."""

    nodes: Nodes
    drain_minutes: DrainMinutes = 15


class DeleteNodes(Ask):
    """Ask for these nodes to go: the target counts of their groups go down with them."""

    nodes: Nodes
    drain_minutes: DrainMinutes = 15


class MoveNodes(Ask):
    """Ask for nodes to belong to another instance group of the same cluster and instance type."""

    nodes: Annotated[Nodes, Field(max_length=50)]
    target_group: Annotated[GroupName, Field(description="The instance group they shall belong to.")]


class CheckNodes(Ask):
    """Ask for deep health checks now: the nodes take no pods for one to two hours."""

    nodes: Nodes
    checks: Annotated[
        list[Check], Field(min_length=1, max_length=3, description="Which checks. Several of one group's nodes are checked together.")
    ] = ["InstanceStress", "InstanceConnectivity"]
    drain_minutes: DrainMinutes = 15


class UncordonNodes(Ask):
    """Ask for nodes to take pods again that an operation of ours cordoned and left so, because it was cancelled."""

    nodes: Nodes


BatchType = Literal["INSTANCE_COUNT", "CAPACITY_PERCENTAGE"]


class UpdateSoftware(Ask):
    """Ask for newer HyperPod software on the nodes of instance groups: root volumes are written anew, lifecycle scripts run again."""

    instance_groups: Annotated[
        list[GroupName] | None,
        Field(min_length=1, max_length=100, description="The groups. Left out: every group that runs something else."),
    ] = None
    release_version: Annotated[
        str | None, Field(max_length=64, pattern=patterns.RELEASE, description="HyperPod release, such as 1.2.0. Left out: the newest.")
    ] = None
    image_id: Annotated[
        str | None, Field(pattern=patterns.IMAGE_ID, description="A custom AMI, or default. Needed for groups on a custom AMI.")
    ] = None
    batch_type: Annotated[BatchType, Field(description="What batch_size counts: nodes, or per cent of a group.")] = "INSTANCE_COUNT"
    batch_size: Annotated[int | None, Field(ge=1, le=6758, description="Most nodes updated at once. Left out: all of a group.")] = None
    rollback_batch_size: Annotated[int | None, Field(ge=1, le=6758, description="Most nodes taken back at once, if it fails.")] = None
    wait_seconds: Annotated[int | None, Field(ge=0, le=3600, description="Pause between two batches.")] = None
    rollback_alarms: Annotated[
        list[Annotated[str, Field(min_length=1, max_length=255)]] | None,
        Field(min_length=1, max_length=10, description="CloudWatch alarms that, when they ring, take the update back."),
    ] = None


class NodesTarget(Target):
    """Nodes of one cluster. ``nodes`` are instance ids (logical ids of nodes without one); ``work`` is what the plan named."""

    nodes: tuple[str, ...]
    work: tuple[str, ...] = ()
    drain_seconds: float = 0.0


class CheckTarget(NodesTarget):
    """The same, with the checks."""

    checks: tuple[str, ...]


def check_subject(target: Target) -> str:
    """Deep health checks take hours and hold nothing else of the cluster back."""
    return f"{subject(target)}/health-checks"


class MoveTarget(NodesTarget):
    """The same, with where to."""

    target_group: str


class SoftwareTarget(Target):
    """Which groups get what."""

    instance_groups: tuple[str, ...]
    release_version: str | None = None
    image_id: str | None = None
    batch_type: str = "INSTANCE_COUNT"
    batch_size: int | None = None
    rollback_batch_size: int | None = None
    wait_seconds: int | None = None
    rollback_alarms: tuple[str, ...] | None = None
    work: tuple[str, ...] = ()
