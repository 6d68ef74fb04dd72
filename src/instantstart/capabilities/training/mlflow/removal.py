"""The stages of taking a tracking server or app away. Artifacts stay in their bucket; what was recorded goes with the server."""

from __future__ import annotations

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.mlflow import rules
from instantstart.ensure import eks
from instantstart.ensure.iam import identity
from instantstart.ensure.identity_chains import tracking_access
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import Ground
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site, site
from instantstart.operations.declare import Run


def revoke(room: Room, run: Run) -> Outcome:
    """The pods' role forgets it; with the last one, role and service accounts go."""
    where = site(room, run.spec)
    server = _find(where, run)
    if server is None or not _has_kubernetes(where):
        return Done(already=True)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    hands = Hands(where, room.kube.cluster(eks.ref(cluster, where.aws.region)), run.token, run.waited_seconds)
    return tracking_access.forget_step(hands, Ground(where, cluster), server) or Done()


def _has_kubernetes(where: Site) -> bool:
    return eks.find_cluster(where.aws, where.eks_cluster) is not None


def _find(where: Site, run: Run) -> Server | None:
    """The very one that was meant: another of the same name is not touched."""
    server = tracking.find(where.aws, run.spec.kind, run.spec.name)
    return server if server is not None and server.arn == run.spec.arn else None


def remove(room: Room, run: Run) -> Outcome:
    """Delete it, and wait until it is gone."""
    where = site(room, run.spec)
    server = _find(where, run)
    if server is None or server.status == "Deleted":
        return Done({"name": run.spec.name})
    if server.status == "Deleting":  # whosever it is: its tags may be gone before it is, and the role waits for the end
        return Wait(15, f"SageMaker is deleting {server.name}")
    rules.check_ours(where, server)
    if server.status in tracking.PASSING:
        return Wait(20, f"{server.name} is {server.status}, and can be deleted after that")
    asked = {"Arn": server.arn} if server.kind is TrackingKind.app else {"TrackingServerName": server.name}
    held = where.aws.remove("sagemaker", f"delete_mlflow_{'app' if server.kind is TrackingKind.app else 'tracking_server'}", **asked)
    return Wait(10, f"SageMaker cannot delete {server.name} now: {held}" if held else f"Asked SageMaker to delete {server.name}")


def remove_role(room: Room, run: Run) -> Outcome:
    """Its role, or of a role that others need only its policy."""
    where = site(room, run.spec)
    others = [s for s in tracking.list_all(where.aws) if s.cluster == where.tag and s.arn != run.spec.arn]
    if not others:
        return identity.remove_role(where.aws, where.names.mlflow_server_role, where.tag) or Done()
    policy = f"artifacts-{run.spec.kind}-{run.spec.name}"
    if not identity.is_our_role(where.aws, where.names.mlflow_server_role, where.tag):
        return Done(already=True)
    if identity.inline_policy(where.aws, where.names.mlflow_server_role, policy) is None:
        return Done(already=True)
    try:
        where.aws.write("iam", "delete_role_policy", RoleName=where.names.mlflow_server_role, PolicyName=policy)
    except problems.NotFound:
        return Done(already=True)
    return Wait(0, f"Removed the policy {policy} of {where.names.mlflow_server_role}")
