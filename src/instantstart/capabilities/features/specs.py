"""What may be asked of features. Presence is intent: a field that is absent is untouched, and null is no way to say so.

Every description is read by a person in the console and by a model through MCP.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator

from instantstart.base import patterns
from instantstart.capabilities.vocabulary import Ask, Change, Target
from instantstart.ensure.capacity.hyperpod_settings import LEAST_PERCENT, MOST_PERCENT

FeatureName = Literal[
    "cert_manager", "metrics_server", "fsx_csi", "training_operator", "task_governance", "kuberay", "keda", "inference_operator",
    "observability", "tiered_checkpointing", "karpenter",
]  # fmt: skip
_ONLY_ON = "is only for switching on or changing: leave it out to switch off"


def absent() -> Any:
    """What a field holds that was not sent: the model's ``model_fields_set`` tells."""
    return None


Enabled = Annotated[
    bool, Field(default_factory=absent, description="true switches on, false switches off; left out: only the other fields change.")
]
Adopt = Annotated[
    bool, Field(default_factory=absent, description="Use the copy that somebody else installed, as it is; it stays theirs to manage.")
]
Overwrite = Annotated[
    list[Annotated[str, Field(max_length=200, pattern=patterns.PRINTABLE)]],
    Field(
        default_factory=absent,
        max_length=20,
        description="Put ours in the place of these objects of somebody else, each by the name that the plan gives.",
        examples=[["Deployment keda/keda-operator"]],
    ),
]


class Switch(Ask):
    """On or off."""

    enabled: Enabled


class CopySwitch(Switch):
    """On or off, for what may be in the cluster as somebody else's copy."""

    adopt: Adopt
    overwrite: Overwrite

    @field_validator("adopt", "overwrite")
    @classmethod
    def _only_on(cls, value: Any, info: ValidationInfo) -> Any:
        if value and info.data.get("enabled") is False:
            raise ValueError(f"{info.field_name} {_ONLY_ON}.")
        if info.field_name == "overwrite" and value and info.data.get("adopt"):
            raise ValueError("overwrite cannot go with adopt: either theirs is used, or ours takes its place.")
        return value


class AddonSwitch(CopySwitch):
    """On or off, for an EKS add-on."""

    version: Annotated[
        str,
        Field(
            default_factory=absent, pattern=patterns.ADDON_VERSION, description="Add-on version to install; left out: the default of EKS."
        ),
    ]
    configuration: Annotated[
        dict[str, Any],
        Field(default_factory=absent, description="Configuration values of the add-on; merged into those it has, null removes one."),
    ]

    @field_validator("version", "configuration")
    @classmethod
    def _only_with_on(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("enabled") is False:
            raise ValueError(f"{info.field_name} {_ONLY_ON}.")
        return value


class ObservabilitySwitch(AddonSwitch):
    """On or off, with where metrics go."""

    workspace_arn: Annotated[
        str,
        Field(
            default_factory=absent,
            pattern=patterns.WORKSPACE_ARN,
            description="Prometheus workspace to write to; left out: one of our own.",
        ),
    ]
    grafana_workspace_name: Annotated[
        str,
        Field(
            default_factory=absent, max_length=255, pattern=patterns.PRINTABLE, description="Name of an existing Managed Grafana workspace."
        ),
    ]
    grafana_workspace_arn: Annotated[
        str,
        Field(
            default_factory=absent,
            pattern=patterns.GRAFANA_ARN,
            description="ARN of that workspace. One is only linked: making it needs IAM Identity Center.",
        ),
    ]

    @field_validator("workspace_arn", "grafana_workspace_name", "grafana_workspace_arn")
    @classmethod
    def _only_for_on(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("enabled") is False:
            raise ValueError(f"{info.field_name} {_ONLY_ON}.")
        if info.field_name == "grafana_workspace_arn" and "grafana_workspace_name" in info.data and not info.data["grafana_workspace_name"]:
            raise ValueError("grafana_workspace_arn goes with grafana_workspace_name: the add-on takes both.")
        return value


class CheckpointSwitch(Switch):
    """On or off, with the memory it takes and who may write checkpoints."""

    memory_percent: Annotated[
        int,
        Field(
            default_factory=absent,
            ge=LEAST_PERCENT,
            le=MOST_PERCENT,
            description="Share of each node's memory for checkpoints, in percent; pods cannot have it.",
        ),
    ]
    bucket: Annotated[
        str,
        Field(
            default_factory=absent, pattern=patterns.BUCKET, description="Bucket for the checkpoints in S3; left out: the cluster's own."
        ),
    ]
    namespace: Annotated[
        str,
        Field(default_factory=absent, max_length=63, pattern=patterns.KUBERNETES_NAME, description="Namespace of the training jobs."),
    ]
    service_account: Annotated[
        str,
        Field(
            default_factory=absent,
            max_length=63,
            pattern=patterns.KUBERNETES_NAME,
            description="Service account the jobs run under; it is made.",
        ),
    ]

    @field_validator("memory_percent", "bucket", "namespace", "service_account")
    @classmethod
    def _only_on(cls, value: Any, info: ValidationInfo) -> Any:
        if info.data.get("enabled") is False:
            raise ValueError(f"{info.field_name} {_ONLY_ON}.")
        return value


class UpdateFeatures(Change):
    """Ask for a difference: only what is named changes."""

    cert_manager: Annotated[AddonSwitch, Field(default_factory=absent, description="Certificates of the operators' webhooks.")]
    metrics_server: Annotated[AddonSwitch, Field(default_factory=absent, description="kubectl top and horizontal autoscaling.")]
    fsx_csi: Annotated[AddonSwitch, Field(default_factory=absent, description="FSx for Lustre volumes.")]
    training_operator: Annotated[AddonSwitch, Field(default_factory=absent, description="HyperPodPyTorchJobs.")]
    task_governance: Annotated[AddonSwitch, Field(default_factory=absent, description="Queues and quotas of teams (Kueue).")]
    kuberay: Annotated[CopySwitch, Field(default_factory=absent, description="Ray clusters and jobs.")]
    keda: Annotated[CopySwitch, Field(default_factory=absent, description="Autoscaling by metrics; the inference operator brings its own.")]
    inference_operator: Annotated[AddonSwitch, Field(default_factory=absent, description="Managed model endpoints.")]
    observability: Annotated[ObservabilitySwitch, Field(default_factory=absent, description="Metrics in Managed Prometheus.")]
    tiered_checkpointing: Annotated[CheckpointSwitch, Field(default_factory=absent, description="Checkpoints in the nodes' memory.")]
    karpenter: Annotated[Switch, Field(default_factory=absent, description="Nodes added and removed as pods need them.")]

    def says(self, name: str) -> bool:
        """Whether a feature that was sent names something of it."""
        return bool(getattr(self, name).model_fields_set)

    def touched(self) -> dict[str, dict[str, Any]]:
        """What was sent: feature -> field -> value."""
        sent = self.model_dump(exclude_unset=True)
        return {name: fields for name, fields in sent.items() if name in self.model_fields_set}


class UpgradeFeature(Ask):
    """Ask for a newer version of an add-on."""

    version: Annotated[
        str,
        Field(default_factory=absent, pattern=patterns.ADDON_VERSION, description="Version to go to; left out: the default of EKS."),
    ]


class RepairFeatures(Ask):
    """Ask for identity chains to be put right again."""

    features: Annotated[
        list[Literal[FeatureName, "s3_csi", "mlflow"]],
        Field(
            default_factory=list,
            max_length=20,
            description="Features, or the chains s3_csi and mlflow; left out: all that have drifted. mlflow is made when it is not there.",
        ),
    ]


class SwitchTarget(Target):
    """feature.enable and feature.disable with their place; ``ask`` is what was sent of the feature."""

    feature: str
    ask: dict[str, Any] = {}


class UpgradeTarget(Target):
    """feature.upgrade with its place and a version that is offered."""

    feature: str
    version: str


class RepairTarget(Target):
    """feature.repair with its place."""

    features: list[str]
