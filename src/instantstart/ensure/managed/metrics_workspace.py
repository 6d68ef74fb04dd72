"""The Amazon Managed Prometheus workspace that a cluster's metrics go to: a given one, checked; or ours, by alias and tag.

Facts: aws-facts A7 (AMP). A workspace of ours is kept when observability is switched off: it holds what was measured.
"""

from __future__ import annotations

from typing import Any

from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.sites import Site


def find(where: Site) -> dict[str, Any] | None:
    """Our workspace as listed, or None. Raises Conflict when one of our alias is not ours."""
    listed = where.aws.pages("amp", "list_workspaces", "workspaces", alias=where.names.metrics_workspace)
    exact = [w for w in listed if w.get("alias") == where.names.metrics_workspace and w["status"]["statusCode"] != "DELETING"]
    ours = [w for w in exact if w.get("tags", {}).get(names.CLUSTER_TAG) == where.tag]
    if exact and not ours:
        raise problems.Conflict(
            "workspace.not_ours",
            f"The Prometheus workspace {where.names.metrics_workspace} exists and was not made for {where.tag}.",
            hint="Give that workspace by its ARN (workspace_arn), or rename it.",
        )
    return ours[0] if ours else None


def ensure(where: Site, token: str) -> Outcome:
    """One step towards a workspace of ours being ACTIVE. Done learns ``endpoint`` and ``arn``."""
    have = find(where)
    if have is None:
        tags = {**where.tags, names.SAGEMAKER_TAG: "true"}
        where.aws.write("amp", "create_workspace", alias=where.names.metrics_workspace, tags=tags, clientToken=token)
        return Wait(2, "Asked for a Prometheus workspace")
    if have["status"]["statusCode"] != "ACTIVE":
        return Wait(3, f"The Prometheus workspace is {have['status']['statusCode']}")
    return Done(describe(where, str(have["workspaceId"])))


def describe(where: Site, workspace: str) -> dict[str, str]:
    """``{endpoint, arn}`` of a workspace by id. Raises NotFound."""
    told = where.aws.read("amp", "describe_workspace", workspaceId=workspace)["workspace"]
    return {"endpoint": str(told["prometheusEndpoint"]).rstrip("/"), "arn": str(told["arn"])}


def id_of(arn: str) -> str:
    """The id in a workspace's ARN."""
    return arn.rpartition("/")[2]


def grafana_url(where: Site, arn: str) -> str:
    """Where a Grafana workspace answers, from its ARN (``...:/workspaces/g-...``)."""
    return f"https://{id_of(arn)}.grafana-workspace.{where.aws.region}.{where.aws.dns_suffix}"
