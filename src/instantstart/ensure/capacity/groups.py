"""Instance groups: from what DescribeCluster tells to what UpdateCluster takes, so that a change of one thing changes one thing.

A group that UpdateCluster is sent is a full replacement of its spec: what is left out is lost (aws-facts A1.4, A1.5). So every field is
carried forward by the tables here, which a contract test holds against botocore's service model: a field that is new there fails the
build until somebody decides what it is. A field that only a newer botocore knows stops the change: it could be lost silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems

Details = Mapping[str, Any]
Request = dict[str, Any]

#: fields of a group that are sent back as they were told
CARRIED = (
    "InstanceGroupName",
    "InstanceType",
    "LifeCycleConfig",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OnStartDeepHealthChecks",
    "TrainingPlanArn",
    "OverrideVpcConfig",
    "ScheduledUpdateConfig",
    "CapacityRequirements",
    "NetworkInterface",
    "SlurmConfig",
)
#: what is told -> what is asked, where the names or the shapes differ
RENAMED = {
    "TargetCount": "InstanceCount",
    "MinCount": "MinInstanceCount",
    "InstanceRequirements": "InstanceRequirements",
    "KubernetesConfig": "KubernetesConfig",
    "AutoPatchConfig": "AutoPatchConfig",
    "DesiredImageId": "ImageId",
    "CurrentImageId": "ImageId",
    "DesiredImageReleaseVersion": "ImageReleaseVersion",
}
#: what only tells, and cannot be asked
READ_ONLY = (
    "CurrentCount",
    "Status",
    "TrainingPlanStatus",
    "InstanceTypeDetails",
    "ActiveOperations",
    "TargetStateCount",
    "SoftwareUpdateStatus",
    "ActiveSoftwareUpdateConfig",
    "ImageVersionStatus",
    "CurrentImageReleaseVersion",
)
#: inside the fields whose shapes differ: what is told -> what is asked; None: only told
INSIDE: dict[str, dict[str, str | None]] = {
    "InstanceRequirements": {"DesiredInstanceTypes": "InstanceTypes", "CurrentInstanceTypes": "InstanceTypes"},
    "KubernetesConfig": {"DesiredLabels": "Labels", "CurrentLabels": "Labels", "DesiredTaints": "Taints", "CurrentTaints": "Taints"},
    "AutoPatchConfig": {
        "PatchingStrategy": "PatchingStrategy",
        "DesiredPatchSchedule": "PatchSchedule",
        "CurrentPatchSchedule": "PatchSchedule",
        "DeploymentConfig": "DeploymentConfig",
        "IdleWaitWindowInSeconds": "IdleWaitWindowInSeconds",
        "DrainPolicy": "DrainPolicy",
    },
}
#: fixed for the life of a group (aws-facts A1.3, part C 4): sent as they are, never changed
FIXED = (
    "InstanceType",
    "InstanceRequirements",
    "ExecutionRole",
    "ThreadsPerCore",
    "InstanceStorageConfigs",
    "OverrideVpcConfig",
    "CapacityRequirements",
    "TrainingPlanArn",
    "NetworkInterface",
)
#: lists in which the order says nothing; that of instance types is the order of preference
_SETS = frozenset({"OnStartDeepHealthChecks", "Taints", "SecurityGroupIds", "Subnets", "InstanceStorageConfigs"})
_DEFAULT_IMAGE = "default"


def find(cluster: Details, name: str) -> dict[str, Any] | None:
    """The group of that name as DescribeCluster tells it, or None."""
    return next((dict(g) for g in cluster.get("InstanceGroups", ()) if g["InstanceGroupName"] == name), None)


def get(cluster: Details, name: str) -> dict[str, Any]:
    """The same. Raises NotFound naming the groups there are."""
    found = find(cluster, name)
    if found is None:
        have = ", ".join(g["InstanceGroupName"] for g in cluster.get("InstanceGroups", ())) or "none"
        raise problems.NotFound(
            "instance_group.unknown",
            f"The cluster {cluster['ClusterName']} has no instance group {name}.",
            hint=f"Its groups: {have}.",
        )
    return found


def to_request(told: Details) -> Request:
    """The request that asks for a group as it is wished now: every setting carried forward, nothing that only tells. Pure."""
    asked = {field: told[field] for field in CARRIED if not _is_empty(told.get(field))}
    asked |= {name: told[field] for field, name in (("TargetCount", "InstanceCount"), ("MinCount", "MinInstanceCount")) if field in told}
    asked |= {name: made for name in INSIDE if told.get(name) and (made := _INSIDE_MAKERS[name](told[name]))}
    asked |= _image(told)
    if "InstanceRequirements" in asked:
        asked.pop("InstanceType", None)  # a flexible group: one or the other
    return asked


def unknown_fields(told: Details) -> tuple[str, ...]:
    """What DescribeCluster told of a group that no table here knows, as dotted names; a newer botocore than ours tells them."""
    top = [field for field in told if field not in (*CARRIED, *RENAMED, *READ_ONLY)]
    inside = [f"{name}.{field}" for name, known in INSIDE.items() for field in told.get(name) or {} if field not in known]
    return tuple(sorted((*top, *inside)))


def check_known(told: Details) -> None:
    """Raise Blocked when a group carries a setting that we do not know: sending the group could lose it."""
    strange = unknown_fields(told)
    if strange:
        raise problems.Blocked(
            "instance_group.field_unknown",
            f"SageMaker tells settings of the group {told['InstanceGroupName']} that this InstantStart does not know: {', '.join(strange)}."
            " Changing the group could lose them, so nothing was sent.",
            hint="Use a newer InstantStart, or change the group with the AWS CLI, sending every setting.",
            evidence={"group": told["InstanceGroupName"], "fields": list(strange)},
        )


def equal(one: Any, other: Any) -> bool:
    """Whether two requests ask for the same: lists whose order says nothing are compared as sets. Pure."""
    return bool(_plain(one) == _plain(other))


def changed_fields(before: Request, after: Request) -> tuple[str, ...]:
    """The names of the fields in which two requests for one group differ."""
    return tuple(sorted(name for name in {*before, *after} if _plain(before.get(name), name) != _plain(after.get(name), name)))


def _image(told: Details) -> Request:
    """A pinned release, and an image of the account's own: without it the group would fall back to SageMaker's."""
    image = told.get("DesiredImageId") or told.get("CurrentImageId")
    asked = {"ImageId": image} if told.get("DesiredImageId") or (image and image != _DEFAULT_IMAGE) else {}
    release = told.get("DesiredImageReleaseVersion")
    return asked | ({"ImageReleaseVersion": release} if release else {})


def _requirements(told: Details) -> Request:
    types = told.get("DesiredInstanceTypes") or told.get("CurrentInstanceTypes")
    return {"InstanceTypes": list(types)} if types else {}


def _kubernetes(told: Details) -> Request:
    """What is wished; what is only current counts when no wish is told at all, else it is about to go."""
    prefix = "Desired" if "DesiredLabels" in told or "DesiredTaints" in told else "Current"
    return {name: told[prefix + name] for name in ("Labels", "Taints") if told.get(prefix + name)}


def _auto_patch(told: Details) -> Request:
    asked = {field: told[field] for field, name in INSIDE["AutoPatchConfig"].items() if field == name and not _is_empty(told.get(field))}
    schedule = told.get("DesiredPatchSchedule") or told.get("CurrentPatchSchedule")
    return asked | ({"PatchSchedule": dict(schedule)} if schedule else {})


_INSIDE_MAKERS = {"InstanceRequirements": _requirements, "KubernetesConfig": _kubernetes, "AutoPatchConfig": _auto_patch}


def _is_empty(value: Any) -> bool:
    """Empty texts and lists are refused by SageMaker; an empty structure can be a choice (``{"Spot": {}}``), but not by itself."""
    return value is None or value in ("", [], {})


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner, key) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        plain = [_plain(each) for each in value]
        return sorted(plain, key=repr) if name in _SETS else plain
    return value
