"""What may be asked of MLflow. Every description is read by a person in the console and by a model through MCP."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Namespace, Target
from instantstart.ensure.mlflow.tracking import TrackingKind

Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=63,
        pattern=patterns.TRAINING_PLAN_NAME,
        description="Name: letters, digits and single hyphens; left out: one derived from the cluster's tag.",
        examples=["team-a"],
    ),
]
Store = Annotated[
    str,
    Field(
        max_length=900,
        pattern=patterns.MLFLOW_STORE,
        description="Folder in S3 for artifacts; left out: mlflow/ and the name, in the cluster's data bucket.",
        examples=["s3://my-bucket/mlflow/team-a"],
    ),
]
Namespaces = Annotated[
    list[Namespace],
    Field(min_length=1, max_length=10, description="Namespaces whose training pods may log to it; each gets the service account."),
]
Arn = Annotated[str, Field(max_length=300, pattern=patterns.MLFLOW_ARN, description="ARN of a tracking server or app of MLflow.")]
ExperimentName = Annotated[str, Field(min_length=1, max_length=500, pattern=patterns.PRINTABLE)]


class _Create(Ask):
    name: Name | None = None
    artifact_store: Store | None = None
    namespaces: Namespaces = ["default"]
    register_models: Annotated[bool, Field(description="Also register logged models in SageMaker's model registry.")] = False
    maintenance: Annotated[
        str | None,
        Field(
            pattern=patterns.WEEKLY,
            description="Start of the weekly maintenance, UTC; left out: SageMaker chooses.",
            examples=["Tue:03:30"],
        ),
    ] = None


class CreateMlflowServer(_Create):
    """Ask for a tracking server: paid by the hour while it is started."""

    size: Annotated[
        Literal["Small", "Medium", "Large"],
        Field(description="Small: up to 25 users; Medium: up to 50; Large: up to 100 (SageMaker's figures)."),
    ] = "Small"
    version: Annotated[
        str | None, Field(pattern=patterns.MLFLOW_VERSION, description="MLflow version; left out: SageMaker's newest.", examples=["3.0"])
    ] = None


class CreateMlflowApp(_Create):
    """Ask for an MLflow app: the newer form, without a size."""

    account_default: Annotated[bool, Field(description="Make it the default app of the account in this region.")] = False


class GrantMlflow(Ask):
    """Let training pods of some namespaces log to a tracking server or app."""

    namespaces: Namespaces = ["default"]


class ShareMlflow(Ask):
    """Copy complete runs into a tracking server or app of another account. Asked again, only what is new or has changed is copied."""

    destination: Arn
    role_arn: Annotated[
        str,
        Field(max_length=300, pattern=patterns.ROLE_ARN, description="Role of that account to act as; the plan shows what it must allow."),
    ]
    external_id: Annotated[
        str | None,
        Field(min_length=2, max_length=1224, pattern=patterns.EXTERNAL_ID, description="External ID, where the role's trust asks for one."),
    ] = None
    experiments: Annotated[
        list[ExperimentName], Field(max_length=100, description="Names of the experiments; none: all that are not deleted.")
    ] = []
    filter: Annotated[
        str,
        Field(
            max_length=1000,
            pattern=patterns.ONE_LINE,
            description="Only runs that fit, in MLflow's words.",
            examples=["attributes.status = 'FINISHED'"],
        ),
    ] = ""
    prefix: Annotated[
        str,
        Field(
            max_length=100,
            pattern=patterns.ONE_LINE,
            description="Put before each experiment's name there, such as team-a/; left out: the account and a slash.",
        ),
    ] = ""
    workers: Annotated[int, Field(ge=1, le=16, description="Runs copied at the same time.")] = 8


class CreateTarget(Target):
    """mlflow_server.create and mlflow_app.create with their place, and every choice made."""

    kind: TrackingKind
    name: str
    artifact_store: str
    namespaces: list[str]
    register_models: bool = False
    maintenance: str | None = None
    size: str | None = None
    version: str | None = None
    account_default: bool = False


class NamedTarget(Target):
    """mlflow.delete: which one; the ARN is the very one that the plan showed."""

    kind: TrackingKind
    name: str
    arn: str


class GrantTarget(Target):
    """mlflow.grant with its place."""

    kind: TrackingKind
    name: str
    namespaces: list[str]


class ShareTarget(Target):
    """mlflow.share with its place and its source."""

    source: str
    destination: str
    role_arn: str
    external_id: str | None = None
    experiments: list[str] = []
    filter: str = ""
    prefix: str = ""
    workers: int = 8


def named_subject(target: CreateTarget | NamedTarget) -> str:
    """What an operation works on: one tracking server or app."""
    return f"mlflow/{target.region}/{target.kind}/{target.name}"


def grant_subject(target: GrantTarget) -> str:
    """The pods' way to MLflow: one role for each cluster."""
    return f"mlflow-access/{target.region}/{target.tag}"


def share_subject(target: ShareTarget) -> str:
    """One way from here to there."""
    return f"mlflow-share/{target.source}/{target.destination}"
