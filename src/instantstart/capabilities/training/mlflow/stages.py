"""The stages of MLflow: what a tracking server or app rests on, itself, and the pods' way to it.

SageMaker takes no client token here: a creation is made safe by its name, and by our tags on what bears it.
"""

from __future__ import annotations

from typing import Any

from instantstart.aws import assumed
from instantstart.base import names, problems
from instantstart.base.outcome import Done, Outcome, Progress, Wait, pace
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.mlflow import rules, specs
from instantstart.ensure import eks
from instantstart.ensure.iam import identity, principals
from instantstart.ensure.iam.identity import Role
from instantstart.ensure.identity_chains import chain_links, chain_steps, tracking_access
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import Chain, Ground
from instantstart.ensure.mlflow import mlflow_copies, tracking
from instantstart.ensure.mlflow.mlflow_api import Experiment, Mlflow
from instantstart.ensure.mlflow.mlflow_copies import Way
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site, site
from instantstart.ensure.storage import buckets
from instantstart.operations.declare import Run

_SERVER_TYPICAL, _APP_TYPICAL = 1200.0, 120.0
#: what a server's role needs to register models (SageMaker, "Set up IAM permissions for MLflow")
_REGISTRY = ("AddTags", "CreateModelPackageGroup", "CreateModelPackage", "UpdateModelPackage", "DescribeModelPackageGroup")


def prepare_store(room: Room, run: Run) -> Outcome:
    """The bucket of the artifacts: the cluster's own is made, another must be there."""
    where, bucket = site(room, run.spec), rules.bucket_of(run.spec.artifact_store)
    if bucket == where.names.data_bucket:
        return buckets.ensure_bucket(where.aws, bucket, where.tags)
    if buckets.find_region(where.aws, bucket) is None:
        raise problems.Conflict("mlflow.no_bucket", f"There is no bucket {bucket}.", hint="Make it, then retry.")
    return Done({"bucket": bucket}, already=True)


def make_role(room: Room, run: Run) -> Outcome:
    """The role that SageMaker acts as: it reads and writes the artifacts, and registers models where that was asked."""
    where = site(room, run.spec)
    bucket, _, folder = run.spec.artifact_store.removeprefix("s3://").partition("/")
    arn = f"arn:{where.aws.partition}:s3:::{bucket}"
    grants = [
        principals.allow(["s3:ListBucket", "s3:GetBucketLocation"], [arn]),
        principals.allow(["s3:GetObject", "s3:PutObject", "s3:DeleteObject"], [f"{arn}/{folder}/*" if folder else f"{arn}/*"]),
    ]
    if run.spec.register_models:
        grants.append(principals.allow([f"sagemaker:{verb}" for verb in _REGISTRY], [where.aws.arn("sagemaker", "model-package*/*")]))
    trust = principals.service_trust("sagemaker")
    inline = {f"artifacts-{run.spec.kind}-{run.spec.name}": principals.policy(*grants)}
    return identity.ensure_role(where.aws, Role(where.names.mlflow_server_role, trust, (), inline, where.boundary), where.tags)


def create(room: Room, run: Run) -> Outcome:
    """Ask SageMaker for it, once: what bears the name and our tag is it."""
    where, spec = site(room, run.spec), run.spec
    have = tracking.find(where.aws, spec.kind, spec.name)
    if have is not None and have.status != "Deleting":
        rules.check_ours(where, have)
        return Done({"arn": have.arn})
    if have is not None:
        return Wait(15, f"An earlier {spec.name} is being deleted")
    operation, asked = _request(where, run)
    try:
        where.aws.write("sagemaker", operation, **asked)
    except problems.Conflict as problem:
        if problem.code == "aws.out_of_quota" or "exists" not in problem.detail:
            raise
        return Wait(5, f"{spec.name} appeared a moment ago")
    return Wait(5, f"Asked SageMaker for {spec.name}")


def _request(where: Site, run: Run) -> tuple[str, dict[str, Any]]:
    spec: specs.CreateTarget = run.spec
    tags = {**where.tags, names.OPERATION_TAG: run.id}
    asked: dict[str, Any] = {
        "ArtifactStoreUri": spec.artifact_store,
        "RoleArn": where.aws.arn("iam", f"role/{where.names.mlflow_server_role}", regional=False),
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
    }
    asked |= {"WeeklyMaintenanceWindowStart": spec.maintenance} if spec.maintenance else {}
    if spec.kind is TrackingKind.app:
        mode = "AutoModelRegistrationEnabled" if spec.register_models else "AutoModelRegistrationDisabled"
        asked |= {"Name": spec.name, "ModelRegistrationMode": mode}
        return "create_mlflow_app", asked | ({"AccountDefaultStatus": "ENABLED"} if spec.account_default else {})
    asked |= {"TrackingServerName": spec.name, "AutomaticModelRegistration": spec.register_models}
    asked |= {"TrackingServerSize": spec.size} if spec.size else {}
    return "create_mlflow_tracking_server", asked | ({"MlflowVersion": spec.version} if spec.version else {})


def await_usable(room: Room, run: Run) -> Outcome:
    """Until it answers: a status in which it does, and active."""
    where = site(room, run.spec)
    server = tracking.find(where.aws, run.spec.kind, run.spec.name)
    if server is None:
        return Wait(10, f"SageMaker does not show {run.spec.name} yet")
    if server.is_usable:
        return Done({"arn": server.arn, "status": server.status})
    if server.status.endswith("Failed"):
        raise problems.Conflict(
            "mlflow.failed",
            f"SageMaker could not make {server.name}: {server.status}.",
            hint="Look at the role and the bucket, delete it, and create it again.",
            evidence={"arn": server.arn, "status": server.status},
        )
    typical = _APP_TYPICAL if run.spec.kind is TrackingKind.app else _SERVER_TYPICAL
    return Wait(pace(run.waited_seconds, typical), server.why)


# --- the pods' way


def grant_roles(room: Room, run: Run) -> Outcome:
    """Provider, role, trust of each namespace's account, and a policy for exactly this server and its artifacts."""
    hands, chain = _chain(room, run)
    return chain_steps.role_step(hands, chain) or Done({"role": chain.role})


def grant_accounts(room: Room, run: Run) -> Outcome:
    """The service account in each namespace, with its annotation."""
    hands, chain = _chain(room, run)
    step = chain_steps.account_step(hands, chain, late=False)
    return step or Done({"accounts": [account.label for account in chain.accounts]})


def verify_access(room: Room, run: Run) -> Outcome:
    """Read every link anew, and tell how a job reaches it."""
    hands, chain = _chain(room, run)
    broken = [link for link in _links(hands, chain) if link.status in chain_links.BROKEN]
    if broken:
        return Wait(3, broken[0].detail)
    server = _server(hands.where, run)
    accounts = [account.label for account in chain.accounts]
    return Done({"tracking_uri": server.arn, "role": chain.role, "service_accounts": accounts})


def _chain(room: Room, run: Run) -> tuple[Hands, Chain]:
    where = site(room, run.spec)
    cluster = eks.get_cluster(where.aws, where.eks_cluster)
    hands = Hands(where, room.kube.cluster(eks.ref(cluster, where.aws.region)), run.token, run.waited_seconds)
    wish = tracking_access.Wish(_server(where, run), tuple(run.spec.namespaces))
    return hands, tracking_access.with_wish(Ground(where, cluster), wish)


def _server(where: Site, run: Run) -> Server:
    return tracking.get(where.aws, run.spec.kind, run.spec.name)


def _links(hands: Hands, chain: Chain) -> tuple[chain_links.Link, ...]:
    return chain_links.links(chain, tracking_access.read_seen(hands, chain))


# --- sharing

_COPY_SECONDS = 20.0
_TOLD = 5


def reach(room: Room, run: Run) -> Outcome:
    """Take the other account's role, and see both sides answer: what is missing is told here, before anything is copied."""
    way = share_way(room, run.spec, run.id)
    wanted = _wanted(way, run.spec)
    way.target.experiments(limit=1)
    return Done({"experiments": [e.name for e in wanted]}, already=True)


def copy(room: Room, run: Run) -> Outcome:
    """Copy for a while, look at both sides again, and go on until nothing is left."""
    way = share_way(room, run.spec, run.id)
    tally = mlflow_copies.go_on(way, _wanted(way, run.spec), _COPY_SECONDS)
    if tally.failed and not tally.copied:
        raise _failure(tally)
    if tally.is_complete:
        return Done({"runs": tally.runs, "experiments": tally.experiments}, already=not tally.copied)
    return Wait(0, f"Copied {tally.done} of {tally.runs} runs", Progress(tally.done, tally.runs, "runs"))


def share_way(room: Room, spec: Any, session: str) -> Way:
    """Both sides. The role's credentials live in this object alone; each tick takes the role anew."""
    where = site(room, spec)
    place = tracking.place_of(spec.destination)
    there = assumed.assume(where.aws, spec.role_arn, place.region, f"instantstart-{session}"[:64], spec.external_id)
    prefix = spec.prefix or f"{where.names.account}/"
    return Way(Mlflow(where.aws, spec.source), Mlflow(there, spec.destination), prefix, spec.filter, spec.workers)


def _wanted(way: Way, spec: Any) -> list[Experiment]:
    """The experiments that were named, or all. Raises NotFound that names those that are not there."""
    active = way.source.all_experiments()
    if not spec.experiments:
        return active
    missing = sorted(set(spec.experiments) - {e.name for e in active})
    if missing:
        told = f"There is no experiment {', '.join(missing)} in {spec.source}."
        raise problems.NotFound("mlflow.experiment_unknown", told, hint="List the experiments.")
    return [e for e in active if e.name in spec.experiments]


def _failure(tally: mlflow_copies.Tally) -> problems.Problem:
    some = list(tally.failed.items())[:_TOLD]
    told = "; ".join(f"{run}: {problem.detail}" for run, problem in some)
    return problems.Conflict(
        "mlflow.runs_refused",
        f"{len(tally.failed)} runs could not be copied, {tally.done} of {tally.runs} are: {told}",
        hint="Mend or delete those runs, or leave them out by a filter; then retry.",
        evidence={"runs": [run for run, _ in some]},
    )
