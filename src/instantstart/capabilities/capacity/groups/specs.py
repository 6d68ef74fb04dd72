"""What may be asked of instance groups. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ModelWrapValidatorHandler, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, CapacityType, Change, InstanceType, SubnetId, Target, Zone
from instantstart.ensure.capacity import labels as node_labels

GroupName = Annotated[
    str, Field(min_length=1, max_length=63, pattern=patterns.INSTANCE_GROUP, description="Name of the instance group.", examples=["gpu-a"])
]
NodeCount = Annotated[int, Field(ge=0, le=6758, description="Number of nodes the group shall have; 0 is allowed.")]
Check = Literal["InstanceStress", "InstanceConnectivity", "MultiNodeTrainingValidation"]
InterfaceMode = Literal["standard", "efa_only"]
Labels = Annotated[
    dict[str, str],
    Field(max_length=50, description="Kubernetes labels of the nodes. The whole set: what is left out of it is removed; {} removes all."),
]
Taint = Annotated[str, Field(max_length=512, pattern=patterns.TAINT)]
Taints = Annotated[
    list[Taint],
    Field(max_length=50, description="Taints of the nodes, as key=value:Effect or key:Effect. The whole set; [] removes all."),
]
Checks = Annotated[
    list[Check],
    Field(max_length=3, description="Deep health checks before a new node takes work; one to two hours. The whole set; [] is none."),
]
MinimumCount = Annotated[
    int, Field(ge=0, le=6758, description="Nodes that must arrive within three hours, or SageMaker takes the change back. 0: none.")
]
ScriptFolder = Annotated[
    str, Field(max_length=1024, pattern=patterns.S3_URI, description="S3 folder of the lifecycle scripts, as s3://bucket/folder.")
]
Script = Annotated[
    str, Field(min_length=1, max_length=128, pattern=patterns.PRINTABLE, description="Script in that folder that runs on a new node.")
]
PlanArn = Annotated[str, Field(pattern=patterns.TRAINING_PLAN_ARN, description="With capacity_type training_plan: its ARN.")]
Volume = Annotated[int, Field(ge=1, le=16384, description="Size of each node's extra volume, in GiB.")]
DrainMinutes = Annotated[
    int,
    Field(
        ge=0, le=1440, description="How long pods get to leave within their disruption budgets, before a person decides. 0: no draining."
    ),
]
Capacity = Annotated[CapacityType, Field(description="How the nodes are paid for; fixed for the life of the group.")]
Mode = Annotated[
    InterfaceMode,
    Field(description="efa_only: network cards beyond the first carry EFA only and take no address. Types with several cards only; fixed."),
]


class LabelledAsk(Ask):
    """Wrong labels are told by the rules, beside what the facts say; when the shape is wrong already, with it."""

    @model_validator(mode="wrap")
    @classmethod
    def _labels_too(cls, data: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return handler(data)
        except ValidationError as error:
            given = data.get("labels") if isinstance(data, Mapping) else None
            labels = {k: v for k, v in given.items() if isinstance(v, str)} if isinstance(given, Mapping) else {}
            shape = [InitErrorDetails(type=e["type"], loc=e["loc"], input=e["input"], ctx=e.get("ctx", {})) for e in error.errors()]
            more = [
                InitErrorDetails(type=PydanticCustomError("label", told), loc=("labels", key), input=labels[key])
                for key, told in node_labels.wrong_labels(labels)
            ]
            raise ValidationError.from_exception_data(cls.__name__, [*shape, *more]) from None


class AddInstanceGroup(LabelledAsk):
    """Ask for a new instance group: one decision, most of it for the life of the group."""

    name: GroupName
    instance_type: InstanceType
    instance_count: NodeCount = 1
    zone: Annotated[Zone | None, Field(description="Zone of the nodes, name or id. A training plan or subnet_id tells it by itself.")] = (
        None
    )
    volume_gib: Volume = 500
    capacity_type: Capacity = "on_demand"
    training_plan_arn: PlanArn | None = None
    network_interface: Mode = "standard"
    subnet: Annotated[
        Literal["shared", "dedicated"],
        Field(description="shared: the compute subnet of the zone. dedicated: one for this group; it outlives the group."),
    ] = "shared"
    subnet_id: Annotated[SubnetId | None, Field(description="An existing private subnet of the cluster's VPC, instead of both.")] = None
    labels: Labels = {}
    taints: Taints = []
    deep_health_checks: Checks = []
    min_instance_count: MinimumCount = 0
    lifecycle_uri: Annotated[ScriptFolder | None, Field(description="Left out: the cluster's own lifecycle scripts.")] = None
    lifecycle_script: Script | None = None


class UpdateInstanceGroup(LabelledAsk, Change):
    """Ask for changes of a group: what is left out stays. What is fixed for life may be sent as it is, and is refused otherwise."""

    labels: Labels | None = None
    taints: Taints | None = None
    deep_health_checks: Checks | None = None
    min_instance_count: MinimumCount | None = None
    lifecycle_uri: ScriptFolder | None = None
    lifecycle_script: Script | None = None
    instance_type: InstanceType | None = None
    volume_gib: Volume | None = None
    capacity_type: Capacity | None = None
    training_plan_arn: PlanArn | None = None
    network_interface: Mode | None = None
    subnet_id: Annotated[SubnetId | None, Field(description="The group's subnet; fixed.")] = None


class ScaleInstanceGroup(Ask):
    """Ask for another number of nodes."""

    instance_count: NodeCount
    expected_count: Annotated[
        int | None, Field(ge=0, le=6758, description="The count you saw. When it is another by now, nothing is done and you are told.")
    ] = None
    drain_minutes: DrainMinutes = 60


class GroupTarget(Target):
    """An existing group with its place."""

    group: str


class AddTarget(Target, AddInstanceGroup):
    """instance_group.add with its place."""


class UpdateTarget(GroupTarget, UpdateInstanceGroup):
    """instance_group.update with its place."""


class ScaleTarget(GroupTarget, ScaleInstanceGroup):
    """instance_group.scale with its place."""

    #: nodes with work may be taken: their plan was approved
    disturb: bool = False


class DeleteTarget(GroupTarget):
    """instance_group.delete with its place."""

    drain_minutes: int = 60


def subject(target: Target) -> str:
    """What an operation works on: one at a time for each group, so that groups do not wait for one another."""
    return f"cluster/{target.region}/{target.tag}/instance-group/{group_of(target)}"


def group_of(target: Target) -> str:
    """The name of the group that a target is about."""
    return target.name if isinstance(target, AddTarget) else str(getattr(target, "group", ""))
