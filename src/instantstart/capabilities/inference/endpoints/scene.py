"""What the rules look at, read from the world: the operator, the cluster's types, the model's place, names and Secrets.

What a person may leave out and the world knows (a bucket's region, a file system's names, a model's newest commit, the cluster's own
Prometheus workspace, what counts the accelerators of a type) is filled in here.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems, trees
from instantstart.base.trees import Tree
from instantstart.capabilities.inference.endpoints import parts, rules
from instantstart.capabilities.room import Room
from instantstart.ensure.capacity import accelerators, hyperpod
from instantstart.ensure.capacity import nodes as seen_nodes
from instantstart.ensure.capacity.accelerators import Offer
from instantstart.ensure.findings import Finding
from instantstart.ensure.inference import endpoints, serving
from instantstart.ensure.managed import component_reads, component_state, metrics_workspace
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets, filesystems
from instantstart.hub.client import Wanted
from instantstart.kube import shapes
from instantstart.kube.client import KubeCluster, Resource
from instantstart.kube.shapes import Node

#: the HyperPod cluster as described, why it could not be, or None when there is none
Told = dict[str, Any] | problems.Problem | None
SCALED_OBJECT = "keda.sh/v1alpha1/ScaledObject"
_LISTED = 50


@dataclass(frozen=True)
class Scene:
    """One endpoint's place. ``live``: the object that is there, or None."""

    room: Room
    where: Site
    kube: KubeCluster
    namespace: str
    name: str
    live: Resource | None

    @classmethod
    def of(cls, room: Room, where: Site, namespace: str, name: str) -> Scene:
        """Look for the endpoint."""
        kube = where.kube(room)
        return cls(room, where, kube, namespace, name, endpoints.find(kube, namespace, name))


def look(here: Scene, settings: Tree, fresh: bool, foreign: Sequence[str] = ()) -> tuple[Tree, rules.Facts]:
    """The settings filled in, and the facts about them. ``fresh``: it is to be made; ``foreign``: settings its kind has no place for."""
    filled = trees.merge({}, settings, rules.WHOLE)
    found = tuple(_SOURCES[kind](here, filled) if (kind := trees.get(filled, "source.type")) in _SOURCES else ())
    _fill_workspaces(here, filled)
    cluster = _cluster(here)
    live = [shapes.node(n) for n in here.kube.list("Node")]
    types = cluster if isinstance(cluster, problems.Problem) else _types(cluster, live)
    tiered = cluster if isinstance(cluster, problems.Problem) else _tiered(cluster)
    offers = _offers(here, filled, live, cluster)
    _fill_resource(filled, offers)
    facts = rules.Facts(
        operator=_operator(here),
        tiered=tiered,
        offers=offers,
        types=types,
        source=found,
        taken=tuple(_taken(here)) if fresh else (),
        namespace=not fresh or here.kube.find("Namespace", here.namespace) is not None,
        secrets=tuple(_secrets(here, filled)),
        fresh=fresh,
        links=tuple(_links(here, filled)) if fresh else (),
        scalers=tuple(_scalers(here)) if filled.get("autoscaling") else (),
        suffix=here.where.aws.dns_suffix,
        foreign=tuple(foreign),
    )
    return filled, facts


def _cluster(here: Scene) -> Told:
    try:
        return hyperpod.find_cluster(here.where.aws, here.where.hyperpod_cluster)
    except problems.Problem as problem:
        return problem


def _operator(here: Scene) -> component_state.Status | problems.Problem:
    try:
        return component_state.judge(component_reads.read(here.where, here.room))["inference_operator"]
    except problems.Problem as problem:
        return problem


def _tiered(cluster: Mapping[str, Any] | None) -> bool:
    return bool(trees.get(cluster or {}, "TieredStorageConfig.Mode") == "Enable")


def _types(cluster: Mapping[str, Any] | None, live: Sequence[Node]) -> frozenset[str]:
    """Types of the groups (also those at 0 nodes) and of the nodes that are there."""
    found = {t for n in live if (t := n.metadata.labels.get(seen_nodes.INSTANCE_TYPE))}
    for group in (cluster or {}).get("InstanceGroups", ()):
        several = trees.get(group, "InstanceRequirements.DesiredInstanceTypes") or trees.get(
            group, "InstanceRequirements.CurrentInstanceTypes"
        )
        found |= set(several or [group.get("InstanceType")])
    return frozenset(found - {None})


def _offers(
    here: Scene, settings: Tree, live: Sequence[Node], cluster: dict[str, Any] | problems.Problem | None
) -> dict[str, Offer | None]:
    percent = 0 if isinstance(cluster, problems.Problem) else accelerators.tiered_percent(cluster)
    made: dict[str, Offer | None] = {}
    for each in dict.fromkeys(settings.get("instance_types") or ()):
        try:
            made[each] = accelerators.look(here.where, here.kube, each, live, percent)
        except problems.Problem:
            made[each] = None
    return made


def _fill_resource(settings: Tree, offers: Mapping[str, Offer | None]) -> None:
    """What counts the accelerators: as the nodes of the type say."""
    if not trees.get(settings, "server.accelerators") or trees.get(settings, "server.accelerator_resource"):
        return
    known = next((o.resource for o in offers.values() if o is not None and o.resource), None)
    if known and known != seen_nodes.GPU:
        trees.put(settings, "server.accelerator_resource", known)


def _fill_workspaces(here: Scene, settings: Tree) -> None:
    """Triggers that name no workspace ask the cluster's own."""
    given = trees.get(settings, "autoscaling.triggers") or []
    if not any(t["type"] == "prometheus" and not t.get("workspace") for t in given):
        return
    try:
        own = metrics_workspace.find(here.where)
        address = metrics_workspace.describe(here.where, str(own["workspaceId"]))["endpoint"] if own else None
    except problems.Problem:
        address = None
    if address:
        filled = [{**t, "workspace": t.get("workspace") or address} if t["type"] == "prometheus" else t for t in given]
        trees.put(settings, "autoscaling.triggers", filled)


# --- names and Secrets


def _taken(here: Scene) -> list[str]:
    """What else bears the name: the operator would make its Deployment over it."""
    there = here.kube.find("Deployment", here.name, here.namespace)
    if there is None or (here.live is not None and endpoints.belongs(there, here.live)):
        return []
    return [f"A Deployment {here.namespace}/{here.name} is there already, and the operator's would bear the same name."]


def _links(here: Scene, settings: Tree) -> list[str]:
    """Services by whose name Kubernetes sets a variable that the server reads (case 58); the operator cannot switch that off."""
    server = settings.get("server") or {}
    engine = serving.engine_of([*(server.get("command") or ()), *(server.get("args") or ())], server.get("image"))
    set_already = f"{engine.upper()}_PORT" in (server.get("env") or {})
    there = engine != "custom" and not set_already and here.kube.find("Service", engine, here.namespace) is not None
    return [engine] if there else []


def _secrets(here: Scene, settings: Tree) -> list[tuple[str, str]]:
    wanted = [
        (f"server/secret_env/{at}", each["secret"], each["key"]) for at, each in enumerate(trees.get(settings, "server.secret_env") or ())
    ]
    token = trees.get(settings, "source.token_secret")
    wanted += [("source/token_secret", token, parts.TOKEN_KEY)] if token else []
    found = []
    for pointer, name, key in wanted:
        secret = here.kube.find("Secret", name, here.namespace)
        if secret is None:
            found.append((pointer, f"There is no Secret {here.namespace}/{name}."))
        elif key not in (secret.get("data") or {}):
            found.append((pointer, f"The Secret {here.namespace}/{name} has no key {key}."))
    return found


def _scalers(here: Scene) -> list[str]:
    """Autoscalers of others on the Deployment of that name (case 65)."""
    own = {here.live["metadata"]["uid"]} if here.live else set()
    scaled = here.kube.list(SCALED_OBJECT, here.namespace) if here.kube.serves(SCALED_OBJECT) else []
    several = [*scaled, *here.kube.list("HorizontalPodAutoscaler", here.namespace)]
    found = []
    for each in several:
        owners = each["metadata"].get("ownerReferences") or ()
        of_keda = any(o.get("kind") == "ScaledObject" for o in owners)
        ours = any(o.get("uid") in own for o in owners)
        if trees.get(each, "spec.scaleTargetRef.name") == here.name and not ours and not of_keda:
            found.append(f"{each['kind']} {here.namespace}/{each['metadata']['name']}")
    return found


# --- where the model lies


def _s3(here: Scene, settings: Tree) -> list[Finding]:
    bucket, location = trees.get(settings, "source.bucket"), trees.get(settings, "source.location")
    if not bucket:
        return []
    try:
        region = buckets.find_region(here.where.aws, bucket)
    except problems.Problem as problem:
        trees.put(settings, "source.region", trees.get(settings, "source.region") or here.where.aws.region)
        return [Finding("source/bucket", "unknown", f"The bucket {bucket} cannot be looked at: {problem.detail}")]
    if region is None:
        return [Finding("source/bucket", "fail", f"There is no bucket {bucket}.", "List the buckets, or check its spelling.")]
    asked = trees.get(settings, "source.region")
    trees.put(settings, "source.region", asked or region)
    found = []
    if asked and asked != region:
        found.append(Finding("source/region", "fail", f"The bucket {bucket} is in {region}, not in {asked}."))
    if region != here.where.aws.region:
        told = f"The bucket {bucket} is in {region}, the cluster in {here.where.aws.region}: loading is slow and traffic is charged."
        found.append(Finding("source/bucket", "warn", told))
    return [*found, *(_below(here, bucket, location) if location else ())]


def _below(here: Scene, bucket: str, location: str) -> list[Finding]:
    """What lies below a folder of a bucket."""
    try:
        told = here.where.aws.read("s3", "list_objects_v2", Bucket=bucket, Prefix=location.strip("/") + "/", MaxKeys=_LISTED)
    except problems.Problem as problem:
        return [Finding("source/location", "unknown", f"s3://{bucket}/{location} cannot be looked into: {problem.detail}")]
    keys = [o["Key"].rpartition("/")[2] for o in told.get("Contents", ())]
    if not keys:
        return [Finding("source/location", "fail", f"Nothing lies below s3://{bucket}/{location}/.", "Download the model there first.")]
    if "config.json" not in keys and len(keys) < _LISTED:
        return [Finding("source/location", "warn", f"s3://{bucket}/{location}/ has no config.json: it does not look like a model.")]
    return [Finding("source/location", "ok", f"s3://{bucket}/{location}/ holds a model.")]


def _fsx(here: Scene, settings: Tree) -> list[Finding]:
    wanted = trees.get(settings, "source.file_system_id")
    if not wanted:
        return []
    try:
        found = filesystems.find(here.where.aws, wanted)
    except problems.Invalid as problem:
        return [Finding("source/file_system_id", "fail", problem.detail)]
    except problems.Problem as problem:
        return [Finding("source/file_system_id", "unknown", f"The file system {wanted} cannot be looked at: {problem.detail}")]
    if found is None:
        return [Finding("source/file_system_id", "fail", f"There is no FSx for Lustre file system {wanted} in {here.where.aws.region}.")]
    if not found.ready:
        return [Finding("source/file_system_id", "fail", f"The file system {wanted} is {found.status}: it cannot be mounted.")]
    for ours, told in (("file_system_dns", found.dns_name), ("mount_name", found.mount_name)):
        trees.put(settings, f"source.{ours}", trees.get(settings, f"source.{ours}") or told)
    wrong = [
        Finding(f"source/{ours}", "fail", f"The file system {wanted} has {told}, not {trees.get(settings, f'source.{ours}')}.")
        for ours, told in (("file_system_dns", found.dns_name), ("mount_name", found.mount_name))
        if trees.get(settings, f"source.{ours}") != told
    ]
    return wrong or [Finding("source/file_system_id", "ok", f"The file system {wanted} can be mounted.")]


def _huggingface(here: Scene, settings: Tree) -> list[Finding]:
    source = settings["source"]
    if not source.get("repository"):
        return []
    try:
        told = here.room.hub.inspect(Wanted(source["repository"], "model", source.get("commit") or "main"), _token(here, source))
    except (problems.NotFound, problems.Denied) as problem:
        place = "commit" if "revision" in problem.code else "token_secret" if problem.code != "hub.repository_not_found" else "repository"
        return [Finding(f"source/{place}", "fail", problem.detail, problem.hint)]
    except problems.Problem as problem:
        return [Finding("source/repository", "unknown", f"The hub cannot be asked: {problem.detail}")]
    source.setdefault("commit", told.commit)
    return [Finding("source/repository", "ok", f"{told.id} at {told.commit[:12]}, {len(told.files)} files.")]


def _token(here: Scene, source: Mapping[str, Any]) -> str | None:
    name = source.get("token_secret")
    secret = here.kube.find("Secret", name, here.namespace) if name else None
    value = ((secret or {}).get("data") or {}).get(parts.TOKEN_KEY)
    return base64.b64decode(value).decode().strip() if value else None


def _volume(here: Scene, settings: Tree) -> list[Finding]:
    name = trees.get(settings, "source.claim")
    if not name:
        return []
    claim = here.kube.find("PersistentVolumeClaim", name, here.namespace)
    if claim is None:
        return [Finding("source/claim", "fail", f"There is no claim {here.namespace}/{name}.", "List the volumes, or add one.")]
    phase = trees.get(claim, "status.phase") or "Pending"
    if phase != "Bound":
        return [Finding("source/claim", "fail", f"The claim {here.namespace}/{name} is {phase}, not Bound.", "Mend it first.")]
    return [Finding("source/claim", "ok", f"The claim {here.namespace}/{name} is bound.")]


_SOURCES = {"s3": _s3, "fsx": _fsx, "huggingface": _huggingface, "volume": _volume}
