"""What can be read of features: each one's actual state, with its identity chain verified link by link."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.identity_chains import chain_links
from instantstart.ensure.identity_chains.chain_links import Link
from instantstart.ensure.managed import component_reads, component_state, metrics_workspace
from instantstart.ensure.managed.component_reads import World
from instantstart.ensure.managed.component_state import State, Status
from instantstart.ensure.managed.components import COMPONENTS, FEATURES
from instantstart.operations.record import ACTIVE, Operation
from instantstart.store.records import OperationFilter


@dataclass(frozen=True)
class CopyView:
    """A workload of somebody else that does the same work."""

    object: str
    role: str
    manager: str


@dataclass(frozen=True)
class FeatureOperation:
    """The operation that switches a feature now."""

    id: str
    workflow: str
    status: str


@dataclass(frozen=True)
class FeatureView:
    """One feature as it is. ``why`` is one sentence; ``installed_by`` is InstantStart, another feature, or somebody else by name."""

    name: str
    title: str
    says: str
    enabled: bool
    state: State
    why: str
    version: str | None
    available_version: str | None
    installed_by: str | None
    depends_on: tuple[str, ...]
    needed_by: tuple[str, ...]
    waits_for_nodes: bool
    identity: tuple[Link, ...]
    copies: tuple[CopyView, ...]
    settings: Mapping[str, Any]
    operation: FeatureOperation | None


@dataclass(frozen=True)
class FeatureList:
    """Every feature of a cluster, read anew. ``others``: identity chains that are no feature's (the S3 driver, MLflow)."""

    cluster: str
    items: tuple[FeatureView, ...]
    others: tuple[Link, ...]
    drifted: tuple[str, ...]
    read_at: dt.datetime
    #: when the background check last looked, and what had drifted then
    checked_at: dt.datetime | None
    drifted_since: Mapping[str, dt.datetime]


@dataclass(frozen=True)
class FeatureDetail:
    """One feature, with the versions that EKS offers for it."""

    feature: FeatureView
    versions: tuple[str, ...]


def list_features(room: Room, cluster: str) -> FeatureList:
    """Everything, by one look. Raises NotFound when there is no EKS cluster."""
    where = sites.find(room, cluster)
    world = component_reads.read(where, room)
    return _list(room, world)


def _list(room: Room, world: World) -> FeatureList:
    statuses = component_state.judge(world)
    working = _working(room, world.where.tag)
    items = tuple(_view(world, statuses, name, working) for name in FEATURES)
    others = tuple(link for link in _others(world, statuses))
    drifted = tuple(s.name for s in statuses.values() if s.state is State.drifted)
    note = room.board.get(world.where.tag)
    since = {name: at for name, at in note.drifted.items() if name in drifted} if note else {}
    return FeatureList(world.where.tag, items, others, drifted, room.clock.now(), note.checked_at if note else None, since)


def _others(world: World, statuses: Mapping[str, Status]) -> list[Link]:
    mlflow = world.chains.get("mlflow")
    return [*statuses["s3_csi"].links, *(chain_links.links(mlflow, world.seen) if mlflow else ())]


def get_feature(room: Room, cluster: str, feature: str) -> FeatureDetail:
    """One of them. Raises NotFound for what is no feature."""
    if feature not in FEATURES:
        raise problems.NotFound("feature.unknown", f"There is no feature {feature}.", hint=f"There are: {', '.join(FEATURES)}.")
    where = sites.find(room, cluster)
    world = component_reads.read(where, room)
    view = _view(world, component_state.judge(world), feature, _working(room, cluster))
    offer = world.offers.get(COMPONENTS[feature].source) if isinstance(world.offers, Mapping) else None
    return FeatureDetail(view, offer.versions if offer else ())


def _view(world: World, statuses: Mapping[str, Status], name: str, working: Mapping[str, FeatureOperation]) -> FeatureView:
    status, component = statuses[name], COMPONENTS[name]
    found = tuple(CopyView(c.object, c.role, c.manager) for c in status.copies)
    return FeatureView(
        name=name,
        title=component.title,
        says=component.says,
        enabled=status.is_present,
        state=status.state,
        why=status.why,
        version=status.version,
        available_version=status.available,
        installed_by=status.by,
        depends_on=component.needs,
        needed_by=component_state.needed_by(statuses, name) if status.is_present else (),
        waits_for_nodes=status.waits_for_nodes,
        identity=status.links,
        copies=found,
        settings=_settings(world, status),
        operation=working.get(name),
    )


def _settings(world: World, status: Status) -> dict[str, Any]:
    """What it is set to; of observability also where its dashboards are."""
    told = dict(status.settings)
    chain = world.chains.get(status.name)
    told.update(chain.remembers if chain and status.is_present else {})
    grafana = ((told.get("configuration") or {}).get("amgWorkspace") or {}).get("arn")
    if grafana:
        told["grafana_url"] = metrics_workspace.grafana_url(world.where, grafana)
    return told


def _working(room: Room, cluster: str) -> dict[str, FeatureOperation]:
    """The newest active operation of each feature."""
    page = room.engine.list(OperationFilter(cluster=cluster, statuses=tuple(sorted(ACTIVE)), oldest_first=True), limit=200)
    found: dict[str, FeatureOperation] = {}
    for operation in page.items:
        for name in _features_of(operation):
            found[name] = FeatureOperation(operation.id, operation.workflow, operation.status)
    return found


def _features_of(operation: Operation) -> list[str]:
    if operation.workflow in ("karpenter.enable", "karpenter.disable"):
        return ["karpenter"]
    if not operation.workflow.startswith("feature."):
        return []
    return list(operation.spec.get("features") or [operation.spec.get("feature")])
