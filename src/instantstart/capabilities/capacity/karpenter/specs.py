"""What may be asked of managed Karpenter. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Change, InstanceType, Target, Zone

PoolName = Annotated[
    str,
    Field(
        min_length=1,
        max_length=63,
        pattern=patterns.KUBERNETES_NAME,
        description="Name of the node pool, and of its node class.",
        examples=["gpu-a"],
    ),
]
Group = Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.INSTANCE_GROUP)]
Groups = Annotated[
    list[Group],
    Field(
        min_length=1,
        max_length=10,
        description="Instance groups Karpenter shall scale, from 0 nodes. List Spot and on-demand groups together to mix them: Spot goes "
        "first. No training plan, no deep health checks, one zone each.",
        examples=[["gpu-spot", "gpu-od"]],
    ),
]
Types = Annotated[
    list[InstanceType], Field(max_length=50, description="Instance types the pool may make. Left out or []: every type of its groups.")
]
Zones = Annotated[list[Zone], Field(max_length=10, description="Only nodes in these zones (names). []: every zone of its groups.")]
LabelKey = Annotated[str, Field(max_length=316, pattern=patterns.LABEL_KEY)]
LabelValue = Annotated[str, Field(max_length=63, pattern=patterns.LABEL_VALUE)]
Labels = Annotated[
    dict[LabelKey, LabelValue],
    Field(max_length=50, description="Kubernetes labels of the pool's nodes. The whole set: what is left out of it is removed."),
]
Taint = Annotated[str, Field(max_length=512, pattern=patterns.TAINT)]
Taints = Annotated[
    list[Taint], Field(max_length=50, description="Taints of the pool's nodes, as key=value:Effect or key:Effect. The whole set.")
]
Quantity = Annotated[str, Field(max_length=20, pattern=patterns.QUANTITY)]
Limits = Annotated[
    dict[LabelKey, Quantity],
    Field(
        max_length=20,
        description="Most the pool may hold at once, by resource: nvidia.com/gpu, cpu, memory. Left out: ten of its largest nodes.",
        examples=[{"nvidia.com/gpu": "16"}],
    ),
]
Policy = Annotated[
    Literal["WhenEmpty", "WhenEmptyOrUnderutilized"],
    Field(description="WhenEmpty: only idle nodes go. WhenEmptyOrUnderutilized: also nodes whose pods fit elsewhere; they are evicted."),
]
Wait = Annotated[
    str,
    Field(
        max_length=20,
        pattern=patterns.DURATION_OR_NEVER,
        description="How long a node must be quiet before it goes; more than 0s. At most 2m is advised for Spot. Never: it stays.",
        examples=["10m"],
    ),
]
Lifetime = Annotated[
    str,
    Field(
        max_length=20,
        pattern=patterns.DURATION_OR_NEVER,
        description="A node older than this is drained and replaced, also when it is busy. Never: it is not.",
        examples=["720h"],
    ),
]
Weight = Annotated[int, Field(ge=1, le=100, description="Of several pools that fit, the one with the highest weight is asked first.")]
RoleArn = Annotated[
    str,
    Field(
        min_length=20,
        max_length=2048,
        pattern=patterns.ROLE_ARN,
        description="A role of yours by which HyperPod shall scale. Left out: the role the cluster has, else one is made.",
    ),
]


class Budget(Ask):
    """How many nodes may be taken away at once."""

    nodes: Annotated[
        str, Field(max_length=10, pattern=patterns.SHARE_OF_NODES, description="A number of nodes, or a percentage of the pool's.")
    ]
    reasons: Annotated[
        list[Literal["Underutilized", "Empty", "Drifted"]], Field(max_length=3, description="Only for these reasons; []: for all.")
    ] = []
    schedule: Annotated[
        str | None, Field(min_length=1, max_length=100, description="Only from these times on (cron, UTC); needs duration.")
    ] = None
    duration: Annotated[str | None, Field(max_length=20, pattern=patterns.DURATION, description="For so long; needs schedule.")] = None


class Requirement(Ask):
    """A further condition on the pool's nodes, by a label of its groups."""

    key: LabelKey
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: Annotated[list[LabelValue], Field(max_length=50)] = []


Budgets = Annotated[list[Budget], Field(min_length=1, max_length=50, description="The strictest one that applies holds.")]
Requirements = Annotated[
    list[Requirement],
    Field(
        max_length=50, description="Further conditions by labels. Not karpenter.sh/capacity-type: list Spot or on-demand groups instead."
    ),
]


class EnableKarpenter(Ask):
    """Ask for managed Karpenter on a cluster."""

    cluster_role_arn: RoleArn | None = None


class AddNodePool(Ask):
    """Ask for a node pool: which groups, which limits, and when nodes go again."""

    name: PoolName
    instance_groups: Groups
    instance_types: Types = []
    zones: Zones = []
    requirements: Requirements = []
    labels: Labels = {}
    taints: Taints = []
    limits: Limits | None = None
    weight: Weight | None = None
    consolidation_policy: Policy = "WhenEmpty"
    consolidate_after: Wait = "10m"
    budgets: Budgets = [Budget(nodes="10%")]
    expire_after: Lifetime = "720h"


class UpdateNodePool(Change):
    """Ask for changes of a node pool: what is left out stays."""

    instance_groups: Groups | None = None
    instance_types: Types | None = None
    zones: Zones | None = None
    requirements: Requirements | None = None
    labels: Labels | None = None
    taints: Taints | None = None
    limits: Limits | None = None
    weight: Weight | None = None
    consolidation_policy: Policy | None = None
    consolidate_after: Wait | None = None
    budgets: Budgets | None = None
    expire_after: Lifetime | None = None


class EnableTarget(Target, EnableKarpenter):
    """karpenter.enable with its place."""


class DisableTarget(Target):
    """karpenter.disable with its place."""


class AddPoolTarget(Target, AddNodePool):
    """node_pool.add with its place. ``taken``: the nodes that were agreed to go, by group."""

    taken: dict[str, int] = {}


class UpdatePoolTarget(Target, UpdateNodePool):
    """node_pool.update with its place. ``taken``: the nodes that were agreed to go, by group newly taken over."""

    pool: str
    taken: dict[str, int] = {}


class PoolTarget(Target):
    """node_pool.delete with its place."""

    pool: str
