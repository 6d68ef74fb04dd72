"""Words that the specs of several slices share: how a tag, a zone, an instance type look, and what every request body is."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from instantstart.base import names, patterns

Tag = Annotated[
    str,
    Field(
        min_length=1,
        max_length=names.TAG_LIMIT,
        pattern=patterns.TAG,
        description="Short name of the cluster; every AWS name is derived from it. Letters, digits, '-', '_', '.'.",
        examples=["hypd-1130"],
    ),
]
Region = Annotated[
    str,
    Field(pattern=patterns.REGION, description="AWS region, such as us-west-2. Left out: the server's own.", examples=["us-west-2"]),
]
SubnetId = Annotated[str, Field(pattern=patterns.SUBNET_ID)]
Zone = Annotated[
    str,
    Field(
        min_length=4,
        max_length=40,
        pattern=patterns.ZONE,
        description="Availability zone of the compute nodes: its name or its id.",
        examples=["usw2-az2"],
    ),
]
InstanceType = Annotated[
    str,
    Field(pattern=patterns.INSTANCE_TYPE, description="SageMaker instance type, with the ml. prefix.", examples=["ml.g5.8xlarge"]),
]
Namespace = Annotated[str, Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Kubernetes namespace.")]
Claim = Annotated[
    str,
    Field(max_length=63, pattern=patterns.KUBERNETES_NAME, description="Name of the PersistentVolumeClaim.", examples=["s3-claim"]),
]


def _no_way_out(folder: str) -> str:
    """A folder that stays below where it begins."""
    if {".", ".."} & set(folder.split("/")):
        raise ValueError("must not have '.' or '..' among its parts: it would lead out of where it begins")
    return folder


#: for texts that are folders: what their pattern cannot say; it comes after the pattern, which the document would lose otherwise
Within = AfterValidator(_no_way_out)
CapacityType = Literal["on_demand", "spot", "training_plan"]
DeepHealthCheck = Literal["InstanceStress", "InstanceConnectivity"]


class Ask(BaseModel):
    """What every request body is: strict, frozen, and closed to unknown fields."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class Change(Ask):
    """What the body of every PATCH is: it names at least one thing that is to be other."""

    @model_validator(mode="after")
    def names_something(self) -> Self:
        """A body that says nothing is a mistake of its writer: it is told what it may say."""
        if not any(self.says(name) for name in self.model_fields_set):
            raise ValueError(f"names nothing to change; it may name: {', '.join(type(self).model_fields)}")
        return self

    def says(self, name: str) -> bool:
        """Whether the field that was sent asks for anything: null is as good as left out, unless a body gives it a meaning."""
        return getattr(self, name) is not None


class Target(BaseModel):
    """Which cluster a stage works on: filled in by the door from the path and the register, never by the caller."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tag: str
    region: str


def subject(target: Target) -> str:
    """What an operation works on: one at a time for each cluster."""
    return f"cluster/{target.region}/{target.tag}"
