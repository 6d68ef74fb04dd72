"""What can be read of MLflow: tracking servers and apps, the pods' way to them, and the history of runs in them.

Names, tags and parameters of runs are whatever somebody logged: they are told as text, and bounded.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.training.mlflow import rules, told
from instantstart.ensure import eks, sites
from instantstart.ensure.identity_chains import chain_links, chains, tracking_access
from instantstart.ensure.identity_chains.chain_links import Link
from instantstart.ensure.identity_chains.chain_steps import Hands
from instantstart.ensure.identity_chains.chains import Ground
from instantstart.ensure.mlflow import tracking
from instantstart.ensure.mlflow.mlflow_api import Mlflow, Run, Search
from instantstart.ensure.mlflow.tracking import Server, TrackingKind
from instantstart.ensure.sites import Site

_READERS = 8
#: the longest that SageMaker gives
_LINK_SECONDS = 300


@dataclass(frozen=True)
class MlflowItem:
    """A tracking server or app. ``ours``: made for this cluster. ``pods``: this cluster's training pods may log to it."""

    kind: str
    name: str
    arn: str
    status: str
    usable: bool
    why: str
    version: str | None
    size: str | None
    artifact_store: str | None
    created_at: dt.datetime | None
    cluster: str | None
    ours: bool
    pods: bool


@dataclass(frozen=True)
class Access:
    """How training pods reach MLflow: the account they run under, in which namespaces, and whether every link holds."""

    service_account: str
    namespaces: tuple[str, ...]
    granted: bool
    links: tuple[Link, ...]
    unread: str | None = None


@dataclass(frozen=True)
class MlflowList:
    """Every tracking server and app of the account in this region, and the pods' way."""

    items: tuple[MlflowItem, ...]
    access: Access


@dataclass(frozen=True)
class ExperimentPage:
    """A page of experiments, newest change first."""

    tracking: str
    items: tuple[told.ExperimentItem, ...]
    cursor: str | None


@dataclass(frozen=True)
class RunPage:
    """A page of runs."""

    tracking: str
    items: tuple[told.RunItem, ...]
    cursor: str | None


@dataclass(frozen=True)
class MetricHistory:
    """What a chart shows."""

    tracking: str
    series: tuple[told.Series, ...]


@dataclass(frozen=True)
class Comparison:
    """Runs side by side."""

    tracking: str
    runs: tuple[told.RunItem, ...]
    params: tuple[told.Difference, ...]
    metrics: tuple[told.Difference, ...]


@dataclass(frozen=True)
class Asked:
    """Which runs are wanted. ``experiments`` by name; none: all."""

    tracking: str | None = None
    kind: TrackingKind | None = None
    experiments: tuple[str, ...] = ()
    filter: str = ""
    order_by: tuple[str, ...] = ()


# --- tracking servers and apps


def list_mlflow(room: Room, tag: str) -> MlflowList:
    """Both kinds, with whose they are."""
    where = sites.find(room, tag)
    kept = tracking_access.remembered(Ground(where, {}))
    items = tuple(_item(where, server, kept) for server in tracking.list_all(where.aws))
    return MlflowList(items, _access(room, where, kept))


def get_mlflow(room: Room, tag: str, kind: TrackingKind, name: str) -> MlflowItem:
    """One of them in full."""
    where = sites.find(room, tag)
    return _item(where, tracking.get(where.aws, kind, name), tracking_access.remembered(Ground(where, {})))


def open_link(room: Room, tag: str, kind: TrackingKind, name: str) -> tuple[str, int]:
    """A presigned address of MLflow's pages, and for how many seconds it is good. Raises Conflict when there is nobody to answer."""
    where = sites.find(room, tag)
    server = tracking.get(where.aws, kind, name)
    if not server.is_usable:
        raise problems.Conflict("mlflow.not_usable", server.why, hint="Wait until it is usable, or start it.")
    operation = f"create_presigned_mlflow_{'app' if kind is TrackingKind.app else 'tracking_server'}_url"
    asked = {"Arn": server.arn} if kind is TrackingKind.app else {"TrackingServerName": name}
    return str(where.aws.write("sagemaker", operation, **asked, ExpiresInSeconds=_LINK_SECONDS)["AuthorizedUrl"]), _LINK_SECONDS


def _item(where: Site, server: Server, kept: Mapping[str, str]) -> MlflowItem:
    """``kept``: what the pods' role remembers; one that remembers no server may log to all of the account."""
    servers = kept.get("servers", "").split()
    return MlflowItem(
        kind=server.kind,
        name=server.name,
        arn=server.arn,
        status=server.status,
        usable=server.is_usable,
        why=server.why,
        version=server.version,
        size=server.size,
        artifact_store=server.artifact_store,
        created_at=server.created_at,
        cluster=server.cluster,
        ours=server.cluster == where.tag,
        pods=tracking_access.resource(server) in servers or bool(kept and not servers),
    )


def _access(room: Room, where: Site, kept: Mapping[str, str]) -> Access:
    """Every link of the pods' way. What cannot be read is told in its place."""
    try:
        cluster = eks.get_cluster(where.aws, where.eks_cluster)
        chain = chains.mlflow(Ground(where, cluster, kept))
        hands = Hands(where, room.kube.cluster(eks.ref(cluster, where.aws.region)), lambda name: name)
        found = chain_links.links(chain, tracking_access.read_seen(hands, chain)) if kept else ()
    except problems.Problem as problem:
        return Access(tracking.SERVICE_ACCOUNT, (), False, (), problem.detail)
    holds = bool(found) and not any(link.status in chain_links.BROKEN for link in found)
    return Access(tracking.SERVICE_ACCOUNT, tuple(a.namespace for a in chain.accounts) if kept else (), holds, found)


# --- history


def list_experiments(room: Room, tag: str, asked: Asked, limit: int, cursor: str | None) -> ExperimentPage:
    """A page of experiments."""
    api = _api(room, tag, asked)
    found, following = api.experiments(limit=limit, cursor=cursor)
    return ExperimentPage(api.place.arn, tuple(told.experiment_item(e) for e in found), following)


def list_runs(room: Room, tag: str, asked: Asked, limit: int, cursor: str | None) -> RunPage:
    """A page of runs, newest first unless said otherwise."""
    api = _api(room, tag, asked)
    names = _experiments(api, asked)
    order = asked.order_by or ("attributes.start_time DESC",)
    if not names:
        return RunPage(api.place.arn, (), None)
    found, following = _searched(api, Search(tuple(names), asked.filter, order, limit, cursor))
    return RunPage(api.place.arn, tuple(told.run_item(run, names) for run in found), following)


def _searched(api: Mlflow, search: Search) -> tuple[list[Run], str | None]:
    """A search; what MLflow does not understand is told at its field."""
    try:
        return api.runs(search)
    except problems.Invalid as problem:
        field = "order_by" if "order" in problem.detail.lower() else "cursor" if "token" in problem.detail.lower() else "filter"
        fields = [problems.Violation(f"/query/{field}", problem.detail)]
        hint = "Filters are MLflow's own, such as metrics.loss < 0.5 and params.model = 'gpt'."
        raise problems.Invalid("mlflow.search_invalid", problem.detail, hint=hint, fields=fields, evidence=problem.evidence) from problem


def get_run(room: Room, tag: str, asked: Asked, run_id: str) -> told.RunItem:
    """One run. Raises NotFound."""
    api = _api(room, tag, asked)
    run = api.run(run_id)
    return told.run_item(run, {run.experiment_id: api.experiment(run.experiment_id).name})


def read_history(room: Room, tag: str, asked: Asked, wanted: tuple[Sequence[str], Sequence[str]], most: int) -> MetricHistory:
    """Some metrics of some runs over their steps, thinned out to ``most`` points each; no metric named: all of the first run's."""
    api = _api(room, tag, asked)
    run_ids, keys = wanted
    keys = keys or sorted(api.run(run_ids[0]).metrics)
    pairs = [(run_id, key) for run_id in run_ids for key in keys]
    with ThreadPoolExecutor(_READERS) as pool:
        found = list(pool.map(lambda pair: api.history(*pair), pairs))
    series = [
        told.Series(*pair, points=tuple(told.point_told(p) for p in told.thin(points, most)), total=len(points))
        for pair, points in zip(pairs, found, strict=True)
    ]
    return MetricHistory(api.place.arn, tuple(series))


def compare(room: Room, tag: str, asked: Asked, run_ids: Sequence[str]) -> Comparison:
    """Runs side by side, what differs first."""
    api = _api(room, tag, asked)
    with ThreadPoolExecutor(_READERS) as pool:
        runs = tuple(told.run_item(run, {}) for run in pool.map(api.run, run_ids))
    return Comparison(api.place.arn, runs, told.differences([r.params for r in runs]), told.differences([r.metrics for r in runs]))


def _api(room: Room, tag: str, asked: Asked) -> Mlflow:
    where, arn = rules.choose(room, tag, asked.tracking, asked.kind)
    return Mlflow(where.aws, arn)


def _experiments(api: Mlflow, asked: Asked) -> dict[str, str]:
    """Id -> name of the experiments that are wanted. Raises NotFound for a name that is not there."""
    if not asked.experiments:
        return {e.id: e.name for e in api.all_experiments()}
    found = {name: api.experiment_named(name) for name in asked.experiments}
    missing = [name for name, experiment in found.items() if experiment is None]
    if missing:
        told = f"There is no experiment {', '.join(missing)} in {api.place.arn}."
        raise problems.NotFound("mlflow.experiment_unknown", told, hint="List the experiments.")
    return {e.id: e.name for e in found.values() if e is not None}


def export_runs(room: Room, tag: str, asked: Asked) -> Iterator[str]:
    """Runs as comma-separated values, line by line. The columns are those of all runs, so these are read first."""
    return told.table(list(_all_runs(room, tag, asked, told.MOST_RUNS)))


def _all_runs(room: Room, tag: str, asked: Asked, most: int) -> Iterator[told.RunItem]:
    cursor: str | None = None
    left = most
    while left > 0:
        page = list_runs(room, tag, asked, min(left, 1000), cursor)
        yield from page.items
        left, cursor = left - len(page.items), page.cursor
        if cursor is None:
            return
