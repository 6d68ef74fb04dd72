"""The ground of every run: a sandbox at a fixed port, the product's rooms around it, worlds made once and laid out again at will."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters.crank import Crank, Turned
from tests.clusters.worlds import REGION, SandboxProcess, inventory
from tests.weather.scenarios import Scenario, scenario

from instantstart.base import problems
from instantstart.capabilities.room import Room
from instantstart.capabilities.vocabulary import Target
from instantstart.ensure import sites
from instantstart.kube.client import FIELD_MANAGER, KubeCluster
from instantstart.kube.connection import Ask
from instantstart.store.records import ClusterRow
from instantstart_sandbox.world.settings import Settings as SandboxSettings

TYPE, ZONE = "ml.g5.8xlarge", "usw2-az2"
#: kinds whose objects come and go by themselves, or are written by controllers in our name
_UNSTABLE = frozenset({"Event", "Pod", "ReplicaSet", "EndpointSlice", "Endpoints", "Lease", "ControllerRevision"})
#: after this, what the world does by itself (an add-on that finds its first node) is done
_SETTLED_SECONDS = 300.0
#: between two looks at pods that are processes (of the wall): what they do takes its time, however fast the virtual clock runs
_PAUSE_SECONDS = 0.1
_LONG_ID = re.compile(r"\b(i|ip|hyperpod-i|rtb|subnet|vpc|sg|eni|igw|nat|eipalloc|vpce|ng)-[0-9a-f-]{8,40}\b")

#: the same world with shorter waits: its order and its unkindness stay, the looks that see nothing new are fewer
QUICK = {
    "eks_create_seconds": 60.0,
    "eks_delete_seconds": 40.0,
    "cluster_create_seconds": 40.0,
    "cluster_delete_seconds": 30.0,
    "cluster_update_seconds": 20.0,
    "node_running_seconds": 30.0,
    "node_delete_seconds": 20.0,
    "node_reboot_seconds": 40.0,
    "deep_health_check_seconds": 200.0,
    "cluster_software_update_seconds": 60.0,
    "nat_gateway_seconds": 20.0,
    "mlflow_serves": False,
    "check_answers": True,
}


@dataclass
class Ground:
    """One account on one sandbox, with the engine turned by hand. ``tag``: the cluster that is worked on."""

    sandbox: SandboxProcess
    room: Room
    tag: str = "demo"

    def __post_init__(self) -> None:
        self.crank = Crank(self.room, self.sandbox)

    def place(self) -> dict[str, Any]:
        """What every scenario knows."""
        return {"tag": self.tag, "region": REGION, "zone": ZONE, "instance_type": TYPE}

    @property
    def site(self) -> sites.Site:
        """Where the cluster lives, and every derived name."""
        return sites.site(self.room, Target(tag=self.tag, region=REGION))

    def run(self, what: Scenario, until: str | None = None) -> Turned:
        """Ask for a workflow and turn it to its end, or until a stage is done."""
        self.prepare(what)
        return self.crank.run(what.declared, what.spec(self), until)

    def prepare(self, what: Scenario) -> None:
        """What happens outside before a workflow is asked for, and what goes on beside it."""
        if what.before is not None:
            what.before(self)
        self.crank.real_pause_seconds = _PAUSE_SECONDS if what.processes else 0.0
        if what.beside is not None:
            begun = self.run(what.beside, until=what.beside.declared.stages()[0].name)
            assert begun.problem is None, begun.problem
            self.crank.turn(begun, ticks=2)

    def world_after(self, what: Scenario) -> list[str]:
        """The world as a workflow leaves it."""
        return self.world(what.differs) + (what.sees(self) if what.sees is not None else [])

    def make(self, workflows: Iterable[str]) -> None:
        """Run workflows in fair weather, each to its good end."""
        for name in workflows:
            done = self.run(scenario(name))
            assert done.status == "succeeded", (name, done.stopped_at, done.problem)

    def forget(self) -> None:
        """Nothing is remembered of the run before: no answer kept, no cluster registered, none watched (its ARN is another world's now)."""
        for aws in self.room.aws._regions.values():
            aws._kept.clear()
        for arn in self.room.kube.watching.watched():
            self.room.kube.watching.forget(arn)
        for row in self.room.store.clusters.list():
            self.room.store.clusters.delete(row.tag)

    def kube(self) -> KubeCluster | None:
        """The cluster's Kubernetes, when there is one that lets us in."""
        try:
            kube = self.site.kube(self.room)
            kube.connection.send(Ask("GET", "/version"))
            kube.connection.send(Ask("GET", "/api/v1/namespaces", {"limit": "1"}))
        except problems.Problem:
            return None
        return kube

    def world(self, differs: Sequence[str] = ()) -> list[str]:
        """Everything in the account and everything of ours in Kubernetes, without ids, once it has come to rest.

        Equal lists are equal worlds.
        """
        self.sandbox.warp(_SETTLED_SECONDS)
        lines = [*inventory(self.sandbox), *(objects(kube) if (kube := self.kube()) else ())]
        # whether an add-on has found its pods yet is a matter of real seconds, which a warp does not give it
        lines = [re.sub(r"^(addon .*) (ACTIVE|DEGRADED)$", r"\1 made", line) for line in lines]
        for pattern in differs:
            lines = [re.sub(pattern, "", line) for line in lines]
        return sorted(lines)


#: what two right runs may differ in: moments, ids of file systems and of the operation that asked, and digests over them
_MASKS = (
    (_LONG_ID, r"\1-*"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*Z"), "*"),
    (re.compile(r"\bfs-[0-9a-f]{17}\b"), "fs-*"),
    (re.compile(r'"mountname": "[^"]*"'), '"mountname": "*"'),
    (re.compile(r'"instantstart.dev/operation": "[^"]*"'), '"instantstart.dev/operation": "*"'),
    (re.compile(r"sha256:[0-9a-f]{64}"), "sha256:*"),
    # each count of a pool's workers is marked; what a killed giver left half done was put right by the keeper, which notes from where
    (re.compile(r'"instantstart.dev/counted-by": "[^"]*", '), ""),
    (re.compile(r'"instantstart.dev/settled-from": "[^"]*", '), ""),
)
#: pods that came before their identity are restarted, those that came after it are not
_RESTARTED = '[{"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "*"}}}}}]'


def objects(kube: KubeCluster) -> list[str]:
    """Every Kubernetes object that we own a field of: its name, what we own of it, and what it says there."""
    found = []
    for resource in _listable(kube):
        path = f"/{'apis' if '/' in resource['apiVersion'] else 'api'}/{resource['apiVersion']}/{resource['name']}"
        for item in json.loads(kube.connection.send(Ask("GET", path)))["items"]:
            owned = [e.get("fieldsV1", {}) for e in item["metadata"].get("managedFields", ()) if e["manager"] == FIELD_MANAGER]
            if owned:
                said = json.dumps([_said(item, fields) for fields in owned], sort_keys=True)
                name = f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
                line = f"object {resource['kind']} {name} {said}"
                for pattern, mask in _MASKS:
                    line = pattern.sub(mask, line)
                found.append(line)
    return [line for line in found if not line.endswith(_RESTARTED)]


def _listable(kube: KubeCluster) -> list[dict[str, Any]]:
    groups = json.loads(kube.connection.send(Ask("GET", "/apis")))["groups"]
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    found = []
    for version in versions:
        document = json.loads(kube.connection.send(Ask("GET", f"/{'apis' if '/' in version else 'api'}/{version}")))
        listed = [r for r in document["resources"] if "list" in r["verbs"] and "/" not in r["name"] and r["kind"] not in _UNSTABLE]
        found += [{**resource, "apiVersion": version} for resource in listed]
    return found


def _said(value: Any, fields: Any) -> Any:
    """The part of an object that a set of owned fields names (fieldsV1), lists by their items' own text."""
    if not isinstance(fields, dict) or not (set(fields) - {"."}):
        return value
    if isinstance(value, dict):
        return {k[2:]: _said(value.get(k[2:]), sub) for k, sub in sorted(fields.items()) if k.startswith("f:")}
    return sorted(json.dumps(item, sort_keys=True) for item in value) if isinstance(value, list) else value


class Station:
    """One sandbox after another at one port, so that the rooms composed once serve them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox = SandboxProcess(folder / "now")
        self._made: dict[tuple[str, ...], list[ClusterRow]] = {}
        self.room: Room | None = None

    def ground(self, after: Sequence[str] = (), rate: float = 1.0) -> Ground:
        """The world in which ``after`` has been done, laid out anew; it is made the first time it is wanted."""
        assert self.room is not None
        key = tuple(after)
        if key not in self._made:
            self._make(key)
        self._lay_out(key, rate)
        ground = Ground(self.sandbox, self.room)
        ground.forget()
        for row in self._made[key]:
            self.room.store.clusters.upsert(row)
        return ground

    def empty(self) -> Ground:
        """An empty account on the sandbox that runs already (started when none does)."""
        assert self.room is not None
        if self.sandbox.child is None or self.sandbox.child.poll() is not None or self.sandbox.rate != 1.0:
            return self.ground()
        self.sandbox.clear()
        self.sandbox.admin("settings", **{**SandboxSettings().dump(), **QUICK})
        self.sandbox.admin("reset")
        ground = Ground(self.sandbox, self.room)
        ground.forget()
        return ground

    def _make(self, key: tuple[str, ...]) -> None:
        """Make a world from the nearest one that stands, and keep it. The empty one has no past."""
        rows: list[ClusterRow] = []
        if not key:
            if self.sandbox.child is None or self.sandbox.child.poll() is not None:
                self.start(1.0)
            self.sandbox.admin("reset")
        else:
            nearest = next((known for n in range(len(key) - 1, 0, -1) if (known := key[:n]) in self._made), ())
            ground = self.ground(nearest)
            ground.make(key[len(nearest) :])
            rows = ground.room.store.clusters.list()
        self.sandbox.stop()
        shutil.copytree(self.sandbox.folder / "sandbox", self._kept(key))
        self._made[key] = rows

    def _kept(self, key: tuple[str, ...]) -> Path:
        return self.folder / "kept" / ("+".join(key) or "nothing")

    def _lay_out(self, key: tuple[str, ...], rate: float) -> None:
        self.sandbox.stop()
        shutil.rmtree(self.sandbox.folder / "sandbox", ignore_errors=True)
        shutil.copytree(self._kept(key), self.sandbox.folder / "sandbox")
        self.start(rate)

    def start(self, rate: float) -> None:
        """Start the sandbox on what its folder holds, in fair weather."""
        self.sandbox.rate = rate
        self.sandbox.start()
        self.sandbox.admin("settings", **{**SandboxSettings().dump(), **QUICK})
