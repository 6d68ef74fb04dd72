"""What must hold before something is asked of MLflow. Pure over what was read; what can only be read is read in observe."""

from __future__ import annotations

from dataclasses import dataclass

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.mlflow import specs
from instantstart.ensure import sites
from instantstart.ensure.findings import Finding
from instantstart.ensure.identity_chains import tracking_access
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets

#: what the other account's role must allow on a tracking server, and nothing more; an app has one action for all
_SHARING_ACTIONS = (
    "sagemaker-mlflow:GetExperimentByName",
    "sagemaker-mlflow:SearchExperiments",
    "sagemaker-mlflow:CreateExperiment",
    "sagemaker-mlflow:SearchRuns",
    "sagemaker-mlflow:GetRun",
    "sagemaker-mlflow:CreateRun",
    "sagemaker-mlflow:UpdateRun",
    "sagemaker-mlflow:LogBatch",
)

#: whose a tracking server is changes seldom, and is asked for with every page of runs
_KEPT_SECONDS = 10.0


def sharing_actions(destination: str) -> tuple[str, ...]:
    """What is asked of a destination when runs are copied into it."""
    return ("sagemaker:CallMlflowAppApi",) if tracking.place_of(destination).kind is TrackingKind.app else _SHARING_ACTIONS


@dataclass(frozen=True)
class Facts:
    """What was read before a creation. ``bucket_region`` None: there is no such bucket."""

    there: Server | None
    bucket: str
    bucket_region: str | problems.Problem | None
    own_bucket: bool
    #: why the role of the pods could not remember one more
    no_room: str | None = None


def settled(where: Site, kind: TrackingKind, ask: specs.CreateMlflowServer | specs.CreateMlflowApp) -> specs.CreateTarget:
    """The ask with every choice made: name and artifact store derived where they were left out."""
    name = ask.name or where.names.mlflow
    fields = ask.model_dump(exclude={"name", "artifact_store"})
    store = ask.artifact_store or f"s3://{where.names.data_bucket}/mlflow/{name}"
    return specs.CreateTarget(tag=where.tag, region=where.aws.region, kind=kind, name=name, artifact_store=store.rstrip("/"), **fields)


def bucket_of(store: str) -> str:
    """The bucket of an artifact store."""
    return store.removeprefix("s3://").partition("/")[0]


def observe(where: Site, target: specs.CreateTarget) -> Facts:
    """Read what the checks need."""
    bucket = bucket_of(target.artifact_store)
    region: str | problems.Problem | None
    try:
        region = buckets.find_region(where.aws, bucket)
    except problems.Denied as denied:
        region = denied
    no_room = tracking_access.no_room(where, target.kind, target.name, target.artifact_store, target.namespaces)
    return Facts(tracking.find(where.aws, target.kind, target.name), bucket, region, bucket == where.names.data_bucket, no_room)


def findings(where: Site, target: specs.CreateTarget, facts: Facts) -> list[Finding]:
    """Everything that was found."""
    return [_check_name(where, target, facts), _check_store(where, facts), *_check_deleting(facts), *_check_room(facts)]


def _check_name(where: Site, target: specs.CreateTarget, facts: Facts) -> Finding:
    if facts.there is None:
        return Finding("name", "ok", f"The name {target.name} is free.")
    if facts.there.cluster != where.tag:
        owner = f"cluster {facts.there.cluster}" if facts.there.cluster else "somebody else"
        return Finding("name", "fail", f"{target.name} exists already and was made for {owner}.", "Choose another name.")
    return Finding("name", "ok", f"{target.name} is ours already: {facts.there.why}")


def _check_store(where: Site, facts: Facts) -> Finding:
    if isinstance(facts.bucket_region, problems.Problem):
        return Finding("artifact_store", "fail", f"The bucket {facts.bucket} may not be read by this identity.", "Choose another bucket.")
    if facts.bucket_region is None and not facts.own_bucket:
        return Finding("artifact_store", "fail", f"There is no bucket {facts.bucket}.", "Make it first, or leave artifact_store out.")
    if facts.bucket_region not in (None, where.aws.region):
        told = f"The bucket {facts.bucket} is in {facts.bucket_region}, the tracking server would be in {where.aws.region}."
        return Finding("artifact_store", "warn", told, "Artifacts cross regions: slower, and paid for.")
    return Finding("artifact_store", "ok", f"Artifacts go to the bucket {facts.bucket}.")


def _check_deleting(facts: Facts) -> list[Finding]:
    if facts.there is not None and facts.there.status.endswith("Failed") and not facts.there.is_usable:
        return [Finding("name", "fail", f"{facts.there.name} is {facts.there.status}.", "Delete it first, or choose another name.")]
    return []


def _check_room(facts: Facts) -> list[Finding]:
    if facts.there is not None or facts.no_room is None:
        return []
    return [Finding("name", "fail", facts.no_room, tracking_access.HINT)]


def refusal(found: list[Finding]) -> problems.Problem | None:
    """All violations at once, or None."""
    failing = [f for f in found if f.level == "fail"]
    if not failing:
        return None
    fields = [problems.Violation(f"/{f.check}", f.detail) for f in failing]
    hints = " ".join(f.hint for f in failing if f.hint)
    return problems.Invalid("mlflow.create_refused", " ".join(f.detail for f in failing), hint=hints or None, fields=fields)


def check_ours(where: Site, server: Server) -> None:
    """Raise Conflict for a tracking server or app that was not made for this cluster: it is never changed or removed."""
    if server.cluster != where.tag:
        raise problems.Conflict(
            "mlflow.not_ours",
            f"{server.name} was not made for the cluster {where.tag}; it is not changed.",
            hint="Whoever made it can remove it in SageMaker.",
            evidence={"arn": server.arn},
        )


def choose(room: Room, tag: str, name: str | None, kind: TrackingKind | None) -> tuple[Site, str]:
    """The ARN whose history is meant: the named one, or the only one of this cluster. Raises NotFound or Invalid that list them."""
    where = sites.find(room, tag)
    if name is not None and name.startswith("arn:"):
        return where, _of_here(where, name)
    known_ones = where.aws.cached("mlflow", _KEPT_SECONDS, lambda: tracking.list_all(where.aws))
    listed = [s for s in known_ones if kind in (None, s.kind)]
    fitting = [s for s in listed if s.name == name] if name else [s for s in listed if s.cluster == tag]
    if len(fitting) == 1:
        return where, fitting[0].arn
    known = ", ".join(f"{s.name} ({s.kind})" for s in listed) or "none"
    if not fitting:
        told = f"There is no tracking server or app {name}." if name else f"The cluster {tag} has no tracking server or app of its own."
        raise problems.NotFound("mlflow.unknown", told, hint=f"Known in {where.aws.region}: {known}.")
    raise problems.Invalid(
        "mlflow.ambiguous",
        f"{len(fitting)} tracking servers and apps fit.",
        hint=f"Name one by its ARN or kind. Known: {known}.",
        fields=[problems.Violation("/query/tracking", "Name one.")],
    )


def _of_here(where: Site, arn: str) -> str:
    place = tracking.place_of(arn)
    if place.account != where.names.account:
        raise problems.Invalid(
            "mlflow.other_account",
            f"{arn} is in account {place.account}; histories are read in account {where.names.account}.",
            hint="Read it from an InstantStart of that account, or have it shared.",
            fields=[problems.Violation("/query/tracking", "Name one of this account.")],
        )
    return arn
