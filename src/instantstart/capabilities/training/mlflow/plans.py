"""What a request would do before it does it."""

from __future__ import annotations

import json
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.mlflow import rules, specs
from instantstart.ensure import sites
from instantstart.ensure.findings import Finding
from instantstart.ensure.iam import principals
from instantstart.ensure.identity_chains import tracking_access
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site


def plan_create(where: Site, target: specs.CreateTarget) -> Plan:
    """What a creation makes, and what stands in its way."""
    found = rules.findings(where, target, rules.observe(where, target))
    noun = "MLflow app" if target.kind is TrackingKind.app else f"tracking server ({target.size})"
    make = [
        f"{noun} {target.name} with artifacts in {target.artifact_store}",
        f"role {where.names.mlflow_server_role} for SageMaker, for those artifacts alone",
        f"role {where.names.mlflow_role} for training pods: this one alone",
        *(f"service account {namespace}/{tracking.SERVICE_ACCOUNT}" for namespace in target.namespaces),
    ]
    paid = () if target.kind is TrackingKind.app else ("A tracking server is paid by the hour until it is stopped or deleted.",)
    return Plan(make=tuple(make), findings=tuple(found), warnings=paid)


def checked(where: Site, target: specs.CreateTarget) -> specs.CreateTarget:
    """The same target, when nothing that can be known stands in its way. Raises its refusal."""
    refused = rules.refusal(rules.findings(where, target, rules.observe(where, target)))
    if refused:
        raise refused
    return target


def to_remove(where: Site, kind: TrackingKind, name: str) -> specs.NamedTarget:
    """Which one is meant. Raises NotFound, or Conflict for what is not ours."""
    server = tracking.get(where.aws, kind, name)
    rules.check_ours(where, server)
    return specs.NamedTarget(tag=where.tag, region=where.aws.region, kind=kind, name=name, arn=server.arn)


def plan_delete(where: Site, target: specs.NamedTarget) -> Plan:
    """What goes, and what stays."""
    server = tracking.get(where.aws, target.kind, target.name)
    return Plan(
        remove=(f"{target.kind} {target.name}: every experiment, run, parameter and metric in it",),
        change=(f"role {where.names.mlflow_role}: without it",),
        keep=(f"artifacts in {server.artifact_store}",) if server.artifact_store else (),
        warnings=("What was recorded cannot be brought back. Export or share it first.", *_running(server)),
    )


def _running(server: Server) -> tuple[str, ...]:
    return (f"{server.name} is {server.status} now.",) if server.status in tracking.PASSING else ()


def plan_grant(where: Site, target: specs.GrantTarget) -> Plan:
    """Who may log to what afterwards. Raises Conflict where the role of the pods has no room for it."""
    server = tracking.get(where.aws, target.kind, target.name)
    tracking_access.check_room(where, tracking_access.Wish(server, tuple(target.namespaces)))
    made = [f"service account {namespace}/{tracking.SERVICE_ACCOUNT}" for namespace in target.namespaces]
    return Plan(make=tuple(made), change=(f"role {where.names.mlflow_role}: may log to {server.arn} and use its artifacts",))


def to_share(room: Room, where: Site, source: tuple[TrackingKind, str], ask: specs.ShareMlflow) -> specs.ShareTarget:
    """The ask with its source. Raises Invalid for a destination that is the source."""
    server = tracking.get(where.aws, *source)
    if ask.destination == server.arn:
        told = "A tracking server cannot be shared with itself."
        raise problems.Invalid("mlflow.share_with_itself", told, fields=[problems.Violation("/destination", told)])
    return specs.ShareTarget(tag=where.tag, region=where.aws.region, source=server.arn, **ask.model_dump())


def plan_share(where: Site, target: specs.ShareTarget) -> Plan:
    """What would be copied where, and what the other account's role must allow, word by word."""
    named = ", ".join(target.experiments) if target.experiments else "every experiment"
    prefix = target.prefix or f"{where.names.account}/"
    told = f"complete runs of {named} as {prefix}... in {target.destination}"
    allowed = json.dumps(principals.policy(principals.allow(list(rules.sharing_actions(target.destination)), [target.destination])))
    trust = json.dumps(_trust(where, target))
    findings = (
        Finding("role_arn", "unknown", f"The role must allow: {allowed}", "The other account's owner writes this policy."),
        Finding("role_arn", "unknown", f"The role must trust: {trust}", "The other account's owner writes this trust."),
    )
    note = "Artifacts are not copied: each copy carries the tag instantstart.source_artifacts with their place."
    return Plan(make=(told,), findings=findings, warnings=(note,))


def _trust(where: Site, target: specs.ShareTarget) -> dict[str, Any]:
    principal = where.aws.identity().principal_arn
    statement: dict[str, Any] = {"Effect": "Allow", "Principal": {"AWS": principal}, "Action": "sts:AssumeRole"}
    if target.external_id:
        statement["Condition"] = {"StringEquals": {"sts:ExternalId": target.external_id}}
    return principals.policy(statement)


def place(room: Room, tag: str) -> Site:
    """Where the cluster lives."""
    return sites.find(room, tag)
