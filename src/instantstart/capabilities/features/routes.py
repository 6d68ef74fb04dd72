"""The door of the features slice. A body has at most five statements: differences are in plans.py, the reads in views.py."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response

from instantstart.base import patterns
from instantstart.capabilities import activity
from instantstart.capabilities.doors import (
    Caller,
    ClusterPath,
    DryRun,
    IdempotencyKey,
    Kind,
    Operator,
    RoomDep,
    Viewer,
    Wish,
    accepted,
    approve,
    begin,
    check_approval,
    promise,
)  # fmt: skip
from instantstart.capabilities.features import plans, specs, views
from instantstart.capabilities.features.rules import Change
from instantstart.capabilities.planning import Plan
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.ensure.sites import Site
from instantstart.operations.record import Operation

router = APIRouter(tags=["features"])

FeaturePath = Annotated[str, Path(max_length=40, pattern=patterns.ID, description="Name of the feature, such as training_operator.")]
Approval = Annotated[str | None, Query(max_length=128, description="The approval that the plan (dry_run) gave, to take something away.")]


@dataclass(frozen=True)
class FeatureUpdate:
    """What an ask started: one operation for each switch, in their order. ``changed`` false: all that was touched is already so."""

    changed: bool
    operations: tuple[Operation, ...]
    unchanged: tuple[str, ...]


@router.get("/clusters/{cluster}/features", operation_id="feature_list", summary="List features")
def list_features(room: RoomDep, _caller: Viewer, cluster: ClusterPath) -> views.FeatureList:
    """Every feature as it is now in AWS and Kubernetes, why, by whom, and whether its identity chain holds."""
    return views.list_features(room, cluster)


@router.get("/clusters/{cluster}/features/{feature}", operation_id="feature_get", summary="Get one feature")
def get_feature(room: RoomDep, _caller: Viewer, cluster: ClusterPath, feature: FeaturePath) -> views.FeatureDetail:
    """One feature, with the versions that EKS offers for it."""
    return views.get_feature(room, cluster, feature)


@router.patch(
    "/clusters/{cluster}/features", operation_id="feature_update", summary="Switch features", status_code=202,
    response_model=FeatureUpdate | Plan,
)  # fmt: skip
def update_features(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.UpdateFeatures, response: Response,
    approval: Approval = None, key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Send only what is to change; what is not named is never touched. Each switch is an operation; they go in order of dependence.

    Switching off, and taking a copy of somebody else away, needs the approval that the plan (dry_run) gave.
    """
    where = _place(room, cluster)
    prepared = plans.prepare(room, where, ask)
    if dry_run:
        return promise(response, _planned(room, caller, prepared))
    return _start(room, caller, response, _Asked(prepared.checked(), ask, approval, key))


@router.post(
    "/clusters/{cluster}/features/repair", operation_id="feature_repair", summary="Repair identity chains", status_code=202,
    response_model=Operation | FeatureUpdate | Plan,
)  # fmt: skip
def repair_features(
    room: RoomDep, caller: Operator, cluster: ClusterPath, ask: specs.RepairFeatures, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Put every link right again: provider, trust, policies, annotations, associations, pods. Nothing to repair starts nothing."""
    where = _place(room, cluster)
    names, broken = plans.to_repair(room, where, ask)
    if dry_run or not names:
        return promise(response, Plan(change=broken) if dry_run else FeatureUpdate(False, (), ()))
    return begin(room, caller, response, Wish("feature.repair", specs.RepairTarget(**_at(where), features=names), key))


@router.post(
    "/clusters/{cluster}/features/{feature}/upgrade", operation_id="feature_upgrade", summary="Upgrade a feature", status_code=202,
    response_model=Operation | FeatureUpdate | Plan,
)  # fmt: skip
def upgrade_feature(
    room: RoomDep, caller: Operator, cluster: ClusterPath, feature: FeaturePath, ask: specs.UpgradeFeature, response: Response,
    key: IdempotencyKey = None, dry_run: DryRun = False,
) -> Any:  # fmt: skip
    """Another version of a feature that is an EKS add-on; its role and its values stay."""
    where = _place(room, cluster)
    world, version = plans.upgrade_to(room, where, feature, ask)
    if version is None or dry_run:
        return promise(response, plans.plan_upgrade(world, feature, version) if version else FeatureUpdate(False, (), (feature,)))
    return begin(room, caller, response, Wish("feature.upgrade", specs.UpgradeTarget(**_at(where), feature=feature, version=version), key))


@dataclass(frozen=True)
class _Asked:
    """A checked ask with what came beside it."""

    prepared: plans.Prepared
    ask: specs.UpdateFeatures
    approval: str | None
    key: str | None


def _place(room: Room, cluster: str) -> Site:
    activity.check_not_deleting(room, cluster)
    return sites.find(room, cluster)


def _at(where: Site) -> dict[str, str]:
    return {"tag": where.tag, "region": where.aws.region}


def _planned(room: Room, caller: Caller, prepared: plans.Prepared) -> Plan:
    made = plans.plan(prepared)
    return approve(room, caller, prepared.exact, made) if prepared.destroys and not prepared.obstacles else made


def _start(room: Room, caller: Caller, response: Response, asked: _Asked) -> FeatureUpdate:
    """One operation for each switch, or the one that this key began before. The approval is asked for once, before the first."""
    prepared, touched = asked.prepared, asked.ask.touched()
    known = {name: op for name in touched if (op := _begun(room, caller, asked.key, name)) and op.spec.get("ask") == touched[name]}
    left = [change for change in prepared.changes if change.feature not in known]
    if any(change.destroys for change in left):
        check_approval(room, caller, Wish("feature.update", asked.ask, exact=prepared.exact, approval=asked.approval))
    started = [*known.values(), *(_begin(room, caller, response, prepared, (change, asked.key)) for change in left)]
    switched = {change.feature for change in prepared.changes} | set(known)
    update = FeatureUpdate(bool(started), tuple(started), tuple(name for name in touched if name not in switched))
    if not started:
        return promise(response, update)
    response.headers["Location"] = f"/api/v1/operations/{started[0].id}"
    return update


def _begin(room: Room, caller: Caller, response: Response, prepared: plans.Prepared, wanted: tuple[Change, str | None]) -> Operation:
    """One switch. Managed Karpenter is a workflow of its own, by name: slices do not know one another."""
    change, key = wanted
    waits, key = change.destroys and caller.kind is Kind.agent, f"{key}/{change.feature}" if key else None
    if change.feature == "karpenter":
        tag = prepared.where.tag
        operation, _ = room.engine.start(
            f"karpenter.{change.kind}", _at(prepared.where), caller=caller.id, cluster=tag, key=key, approval=waits
        )
        return accepted(response, operation)
    target = specs.SwitchTarget(**_at(prepared.where), feature=change.feature, ask=dict(change.ask))
    return begin(room, caller, response, Wish(f"feature.{change.kind}", target, key), waits=waits)


def _begun(room: Room, caller: Caller, key: str | None, feature: str) -> Operation | None:
    """The operation that this caller began for this feature under this key."""
    repeat = room.store.operations.find_repeat(f"{key}/{feature}", caller.id) if key else None
    return room.engine.get(str(repeat.answer["operation_id"])) if repeat else None
