"""The writes that change instance groups: UpdateCluster with the groups that change, nodes added by token, nodes removed by name.

Every write is preceded by a read in the same tick; what SageMaker is busy with is waited for. A count that somebody else changed
meanwhile (Karpenter, the console) is told, never overwritten (case 35).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from instantstart.aws.session import Aws
from instantstart.base import problems
from instantstart.base.outcome import Wait
from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.sites import Site

#: most nodes of one BatchAddClusterNodes call, and of one BatchDeleteClusterNodes call (aws-facts A1.6)
MOST_ADDED, MOST_DELETED = 50, 99
_BUSY_SECONDS = 20.0
_CHANGING = frozenset({"Creating", "Updating", "SystemUpdating", "RollingBack"})
CONTINUOUS = "Continuous"


def get_cluster(where: Site) -> dict[str, Any]:
    """The HyperPod cluster of a site. Raises NotFound."""
    found = hyperpod.find_cluster(where.aws, where.hyperpod_cluster)
    if found is None:
        raise problems.NotFound(
            "hyperpod.not_found",
            f"There is no HyperPod cluster {where.hyperpod_cluster} in {where.aws.region}.",
            hint="Create the HyperPod cluster first.",
        )
    return found


def is_continuous(cluster: Mapping[str, Any]) -> bool:
    """Whether nodes come one by one; else an update is all or nothing, and nodes cannot be added by name."""
    return bool(cluster.get("NodeProvisioningMode") == CONTINUOUS)


def await_free(cluster: Mapping[str, Any]) -> Wait | None:
    """Wait while the cluster takes no changes. Raises Conflict when it never will again."""
    status = cluster["ClusterStatus"]
    if status in _CHANGING:
        return Wait(_BUSY_SECONDS, f"The HyperPod cluster is {status}; SageMaker takes no other change until it is InService")
    if status == "Deleting":
        raise problems.Conflict("hyperpod.being_deleted", f"The HyperPod cluster {cluster['ClusterName']} is being deleted.")
    return None


def update(aws: Aws, cluster_name: str, **fields: Any) -> Wait | None:
    """One UpdateCluster; None when it was taken, a Wait when SageMaker is busy with the cluster."""
    try:
        aws.write("sagemaker", "update_cluster", ClusterName=cluster_name, **fields)
    except problems.Conflict as problem:
        if problem.code != "aws.conflict":
            raise
        return Wait(_BUSY_SECONDS, f"SageMaker is busy with the cluster: {problem.detail}")
    return None


def ladder(baseline: int, wanted: int) -> list[int]:
    """The counts that a growing group passes: the baseline, then one more call at a time. Pure."""
    return [*range(baseline, wanted, MOST_ADDED), wanted]


def add_nodes(aws: Aws, cluster_name: str, group: Mapping[str, Any], steps: Sequence[int], token: Callable[[str], str]) -> None:
    """Take a group from its target up the rest of ``steps``, one call a step, each by its own token: again is the same.

    Raises Conflict when the target is none of the steps (somebody else changed it), or when SageMaker refuses the group's nodes.
    """
    name, target = group["InstanceGroupName"], group["TargetCount"]
    check_count(name, target, steps, steps[0])
    for index in range(steps.index(target), len(steps) - 1):
        more = steps[index + 1] - steps[index]
        answer = aws.write(
            "sagemaker",
            "batch_add_cluster_nodes",
            ClusterName=cluster_name,
            ClientToken=token(f"add-{index}"),
            NodesToAdd=[{"InstanceGroupName": name, "IncrementTargetCountBy": more}],
        )
        for failed in answer.get("Failed", ()):
            told = failed.get("Message") or failed["ErrorCode"]
            raise problems.Conflict(
                "instance_group.nodes_refused",
                f"SageMaker did not take {failed.get('FailedCount', more)} more nodes for {name}: {told}",
                hint="Look at the group, then retry: the same nodes are asked for anew.",
                evidence={"service": "sagemaker", "operation": "batch_add_cluster_nodes", "aws_code": failed["ErrorCode"]},
            )


def delete_nodes(aws: Aws, cluster_name: str, nodes: Sequence[Mapping[str, str]]) -> list[str]:
    """Remove up to 99 named nodes (``{"instance", "logical"}``), and lower the targets with them. Answers why some were not taken."""
    some = nodes[:MOST_DELETED]
    by_instance = [n["instance"] for n in some if n["instance"]]
    by_logical = [n["logical"] for n in some if not n["instance"]]
    ids = {"NodeIds": by_instance, "NodeLogicalIds": by_logical}
    answer = aws.write("sagemaker", "batch_delete_cluster_nodes", ClusterName=cluster_name, **{k: v for k, v in ids.items() if v})
    failed = [*answer.get("Failed", ()), *answer.get("FailedNodeLogicalIds", ())]
    gone = "NodeIdNotFound"
    return [str(f.get("Message") or f["Code"]) for f in failed if f["Code"] != gone]


def check_count(group: str, found: int, expected: Sequence[int], baseline: int) -> None:
    """Raise Conflict when somebody else has changed the target count of a group since this operation looked first."""
    if found in expected:
        return
    raise problems.Conflict(
        "instance_group.count_changed",
        f"Somebody else changes the group {group}: its target was {baseline} when this operation began and is {found} now. "
        "Nothing more was sent, so that their change stands.",
        hint="Look at the group and ask again for the count you want. If an autoscaler owns it, change the autoscaler instead.",
        evidence={"group": group, "baseline": baseline, "found": found},
    )


def check_expected(group: str, found: int, expected: int) -> None:
    """Raise Conflict when a group does not have the target count that the caller saw."""
    if found != expected:
        raise problems.Conflict(
            "instance_group.count_changed",
            f"The target of the group {group} is {found}, not the {expected} that you expected. Nothing was sent.",
            hint="Look at the group and ask again for the count you want.",
            evidence={"group": group, "expected": expected, "found": found},
        )


def list_scalings(aws: Aws, cluster_name: str) -> list[str]:
    """The ids of the newest scalings of a cluster, newest first; empty for one that keeps none, or when they may not be read."""
    try:
        listed = aws.read(
            "sagemaker",
            "list_cluster_operations",
            ClusterName=cluster_name,
            Type="Scaling",
            SortBy="CreationTime",
            SortOrder="Descending",
            MaxResults=10,
        )
    except (problems.Invalid, problems.Denied):
        return []
    return [str(summary["OperationId"]) for summary in listed.get("ClusterOperationSummaries", [])]


def overwritten_count(aws: Aws, cluster_name: str, group: str, sent: int, known: Sequence[str]) -> int | None:
    """The target that UpdateCluster found and replaced by ``sent``; None when it found the same. ``known``: the scalings before it.

    Between our read and our write somebody else may have changed the count, and UpdateCluster takes no precondition. SageMaker writes
    down what each scaling found (aws-facts A1.8), so that a change which was lost is noticed and can be put back.
    """
    for operation_id in list_scalings(aws, cluster_name):
        if operation_id in known:
            return None
        told = aws.read("sagemaker", "describe_cluster_operation", ClusterName=cluster_name, OperationId=operation_id)
        for detail in told.get("ScalingDetails", ()):
            if detail["InstanceGroupName"] == group:
                before, after = (detail.get(side, {}).get("TargetCount") for side in ("Original", "Desired"))
                return int(before) if before is not None and after == sent and before != sent else None
    return None
