"""(d) The same manifests, the same fates of pods: the states that controllers bring about, on both sides, in the same order.

Neither side has a kubelet here (the pods' scheduler is nobody), so the test plays it: it writes the pods' status on both.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import httpx2
from tests.differential.normalising import differences
from tests.differential.sides import Side

Object = dict[str, Any]
_PATIENCE_SECONDS = 40.0
_STATUS = {"Content-Type": "application/merge-patch+json"}
_READY = [{"type": t, "status": "True"} for t in ("PodScheduled", "Initialized", "ContainersReady", "Ready")]


def template(labels: dict[str, str], image: str = "i:1", **spec: Any) -> Object:
    containers = [{"name": "c", "image": image}]
    return {"metadata": {"labels": labels}, "spec": {"schedulerName": "nobody", "containers": containers, **spec}}


@dataclass
class Stage:
    """One side's namespace, and what was seen there."""

    client: httpx2.Client
    namespace: str
    seen: list[Any] = field(default_factory=list)

    def path(self, resource: str, name: str = "") -> str:
        """A path in the namespace: ``apps/v1/deployments`` or ``v1/pods``."""
        version, plural = resource.rsplit("/", 1)
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        return f"{root}/namespaces/{self.namespace}/{plural}" + (f"/{name}" if name else "")

    def make(self, resource: str, name: str, spec: Object, **metadata: Any) -> Object:
        """Create an object."""
        answer = self.client.post(self.path(resource), json={"metadata": {"name": name, **metadata}, "spec": spec})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def change(self, resource: str, name: str, body: Object) -> None:
        """A merge patch."""
        answer = self.client.patch(self.path(resource, name), json=body, headers=_STATUS)
        assert answer.status_code == 200, answer.text

    def delete(self, resource: str, name: str, propagation: str) -> None:
        """Delete in one of the three modes."""
        self.client.delete(self.path(resource, name), params={"propagationPolicy": propagation}).raise_for_status()

    def get(self, resource: str, name: str) -> Object | None:
        """An object or None."""
        answer = self.client.get(self.path(resource, name))
        return dict(answer.json()) if answer.status_code == 200 else None

    def all(self, resource: str, selector: str = "") -> list[Object]:
        """Objects by their names."""
        query = {"labelSelector": selector} if selector else {}
        items = self.client.get(self.path(resource), params=query).raise_for_status().json()["items"]
        return sorted(items, key=lambda i: str(i["metadata"]["name"]))

    def pods(self) -> list[Object]:
        """Pods that are not on their way out."""
        return [p for p in self.all("v1/pods") if "deletionTimestamp" not in p["metadata"]]

    def fate(self, pod: Object, phase: str) -> None:
        """Write a pod's status as a kubelet would: Running and ready, Succeeded or Failed."""
        status: Object = {"phase": phase}
        running = phase == "Running"
        if running:
            status["conditions"] = _READY
        state = {"running": {"startedAt": "2026-01-01T00:00:00Z"}} if running else {"terminated": {"exitCode": int(phase == "Failed")}}
        image = pod["spec"]["containers"][0]["image"]
        status["containerStatuses"] = [{"name": "c", "image": image, "imageID": "x", "ready": running, "restartCount": 0, "state": state}]
        path = self.path("v1/pods", pod["metadata"]["name"]) + "/status"
        self.client.patch(path, json={"status": status}, headers=_STATUS)

    def until(self, about: str, look: Callable[[], Any]) -> None:
        """Wait until something is truthy; the value is part of what was seen."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not (value := look()):
            assert time.monotonic() < deadline, f"never came: {about}; {self._state()}"
            time.sleep(0.05)
        self.seen.append((about, value))

    def _state(self) -> str:
        return str([(p["metadata"]["name"], p.get("status", {}).get("phase")) for p in self.all("v1/pods")])


def played(side: Side, play: Callable[[Stage], None]) -> list[Any]:
    """What one side shows of a play."""
    namespace = f"play-{secrets.token_hex(4)}"
    with side.client() as client:
        client.post("/api/v1/namespaces", json={"metadata": {"name": namespace}}).raise_for_status()
        stage = Stage(client, namespace)
        stage.until("a service account", lambda: stage.get("v1/serviceaccounts", "default") is not None)
        try:
            play(stage)
        finally:
            client.delete(f"/api/v1/namespaces/{namespace}")
        return stage.seen


def alike(real: Side, ours: Side, play: Callable[[Stage], None]) -> None:
    """Both sides show the same."""
    a, b = played(real, play), played(ours, play)
    assert not list(differences(a, b)), f"\nreal: {a}\nours: {b}"


def conditions(obj: Object | None) -> dict[str, tuple[str, str]]:
    """Conditions by type: status and reason."""
    found = ((obj or {}).get("status") or {}).get("conditions") or ()
    return {c["type"]: (c["status"], c.get("reason", "")) for c in found}


def counted(obj: Object | None, *fields: str) -> dict[str, int]:
    """Counters of a status."""
    status = (obj or {}).get("status") or {}
    return {f: status.get(f, 0) for f in fields}


_DEPLOYED = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas", "observedGeneration")


def deployment_grows_and_rolls(stage: Stage) -> None:
    """3 replicas become ready, 5, another image, half of the new ones never ready."""
    labels = {"app": "web"}
    stage.make("apps/v1/deployments", "web", {"replicas": 3, "selector": {"matchLabels": labels}, "template": template(labels)})

    def status(**wanted: int) -> Any:
        found = counted(stage.get("apps/v1/deployments", "web"), *_DEPLOYED)
        return found if all(found[k] == v for k, v in wanted.items()) else None

    stage.until("three pods", lambda: len(stage.pods()) == 3)
    stage.until("none ready", lambda: status(replicas=3, unavailableReplicas=3, observedGeneration=1))
    stage.until("conditions", lambda: len(conditions(stage.get("apps/v1/deployments", "web"))) == 2)
    stage.until("which", lambda: conditions(stage.get("apps/v1/deployments", "web")))
    for pod in stage.pods():
        stage.fate(pod, "Running")
    stage.until("all ready", lambda: status(readyReplicas=3, availableReplicas=3, unavailableReplicas=0))
    stage.until("available", lambda: conditions(stage.get("apps/v1/deployments", "web")).get("Available", ("",))[0] == "True")
    stage.until(
        "complete", lambda: conditions(stage.get("apps/v1/deployments", "web"))["Progressing"] == ("True", "NewReplicaSetAvailable")
    )
    stage.change("apps/v1/deployments", "web", {"spec": {"replicas": 5}})
    stage.until("five pods", lambda: len(stage.pods()) == 5)
    for pod in stage.pods():
        stage.fate(pod, "Running")
    stage.until("five ready", lambda: status(readyReplicas=5, observedGeneration=2))
    stage.change("apps/v1/deployments", "web", {"spec": {"template": template(labels, "i:2")}})
    stage.until("surge", lambda: status(updatedReplicas=3, readyReplicas=4, replicas=7, observedGeneration=3))
    stage.until("two sets", lambda: len(stage.all("apps/v1/replicasets")) == 2)
    sizes = {
        r["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: r["spec"]["replicas"] for r in stage.all("apps/v1/replicasets")
    }
    stage.seen.append(sizes)
    stage.seen.append(sorted(stage.all("apps/v1/replicasets")[0]["metadata"]["annotations"]))


def test_a_deployment_grows_and_rolls(real: Side, ours: Side) -> None:
    alike(real, ours, deployment_grows_and_rolls)


def test_a_deployment_grows_and_rolls_on_the_sandbox(ours: Side) -> None:
    assert played(ours, deployment_grows_and_rolls)[-2] == {"1": 4, "2": 3}


def many(stage: Stage, selector: str, count: int) -> bool:
    """Whether so many pods are there."""
    return len(stage.all("v1/pods", selector)) == count


def gone(stage: Stage, name: str) -> bool:
    """Whether a ReplicaSet is there no more."""
    return stage.get("apps/v1/replicasets", name) is None


def job(stage: Stage) -> None:
    """A Job whose pod fails and is not tried again, then one of two pods that succeeds."""
    spec = {"backoffLimit": 0, "template": template({}, restartPolicy="Never")}
    stage.make("batch/v1/jobs", "bad", spec)
    stage.until("a pod", lambda: len(stage.all("v1/pods", "job-name=bad")) == 1)
    stage.seen.append(sorted(stage.all("v1/pods", "job-name=bad")[0]["metadata"]["labels"]))
    stage.seen.append(stage.all("v1/pods", "job-name=bad")[0]["metadata"].get("finalizers"))
    stage.fate(stage.all("v1/pods", "job-name=bad")[0], "Failed")
    stage.until("failed", lambda: conditions(stage.get("batch/v1/jobs", "bad")).get("Failed"))
    stage.seen.append(conditions(stage.get("batch/v1/jobs", "bad")))
    stage.seen.append(counted(stage.get("batch/v1/jobs", "bad"), "failed", "succeeded", "active", "ready"))
    stage.make("batch/v1/jobs", "good", {"completions": 2, "parallelism": 1, "template": template({}, restartPolicy="Never")})
    for number in range(2):
        stage.until("a pod", partial(many, stage, "job-name=good", number + 1))
        for pod in stage.all("v1/pods", "job-name=good"):
            stage.fate(pod, "Succeeded")
    stage.until("complete", lambda: conditions(stage.get("batch/v1/jobs", "good")).get("Complete"))
    stage.seen.append(conditions(stage.get("batch/v1/jobs", "good")))
    stage.seen.append(counted(stage.get("batch/v1/jobs", "good"), "failed", "succeeded", "active", "ready"))
    stage.delete("batch/v1/jobs", "good", "Background")
    stage.until("its pods go", lambda: not stage.all("v1/pods", "job-name=good"))


def test_jobs_fail_and_succeed(real: Side, ours: Side) -> None:
    alike(real, ours, job)


def test_jobs_fail_and_succeed_on_the_sandbox(ours: Side) -> None:
    seen = [look for look in played(ours, job) if isinstance(look, dict) and "Failed" in look]
    assert seen[0]["Failed"] == ("True", "BackoffLimitExceeded")


def deletion_in_three_modes(stage: Stage) -> None:
    """A ReplicaSet goes and its pods with it, or before it, or not at all."""
    for mode in ("Background", "Foreground", "Orphan"):
        name, labels = mode.lower(), {"mode": mode}
        stage.make("apps/v1/replicasets", name, {"replicas": 2, "selector": {"matchLabels": labels}, "template": template(labels)})
        stage.until("two pods", partial(many, stage, f"mode={mode}", 2))
        stage.delete("apps/v1/replicasets", name, mode)
        stage.until("the set is gone", partial(gone, stage, name))
        if mode == "Orphan":
            stage.seen.append([p["metadata"].get("ownerReferences") for p in stage.all("v1/pods", f"mode={mode}")])
        else:
            stage.until("the pods are gone", partial(many, stage, f"mode={mode}", 0))


def test_an_owner_goes_in_three_modes(real: Side, ours: Side) -> None:
    alike(real, ours, deletion_in_three_modes)


def test_an_owner_goes_in_three_modes_on_the_sandbox(ours: Side) -> None:
    assert played(ours, deletion_in_three_modes)[-1] == [None, None]


def claim_waits_and_binds(stage: Stage) -> None:
    """A claim without a volume waits; the volume comes; the claim goes and the volume is Released."""
    name, kind = f"pv-{stage.namespace}", f"class-{stage.namespace}"
    size = {"requests": {"storage": "1Gi"}}
    stage.make("v1/persistentvolumeclaims", "c", {"storageClassName": kind, "accessModes": ["ReadWriteMany"], "resources": size})
    stage.until("pending", lambda: (stage.get("v1/persistentvolumeclaims", "c") or {})["status"]["phase"] == "Pending")
    csi = {"driver": "s3.csi.aws.com", "volumeHandle": name}
    spec = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteMany"],
        "storageClassName": kind,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": csi,
    }
    stage.client.post("/api/v1/persistentvolumes", json={"metadata": {"name": name}, "spec": spec}).raise_for_status()
    try:
        stage.until("bound", lambda: (stage.get("v1/persistentvolumeclaims", "c") or {})["status"]["phase"] == "Bound")
        claim = stage.get("v1/persistentvolumeclaims", "c") or {}
        notes = sorted(claim["metadata"].get("annotations", ()))
        stage.seen.append((claim["status"]["capacity"], claim["status"]["accessModes"], notes, claim["metadata"]["finalizers"]))

        def volume() -> Object:
            return dict(stage.client.get(f"/api/v1/persistentvolumes/{name}").json())

        stage.until("volume bound", lambda: volume()["status"]["phase"] == "Bound")
        stage.seen.append(
            (sorted(volume()["spec"]["claimRef"]), sorted(volume()["metadata"].get("annotations", ())), volume()["metadata"]["finalizers"])
        )
        stage.delete("v1/persistentvolumeclaims", "c", "Background")
        stage.until("released", lambda: volume()["status"]["phase"] == "Released")
    finally:
        stage.client.delete(f"/api/v1/persistentvolumes/{name}")
    stage.until("gone", lambda: stage.client.get(f"/api/v1/persistentvolumes/{name}").status_code == 404)


def test_a_claim_waits_and_binds(real: Side, ours: Side) -> None:
    alike(real, ours, claim_waits_and_binds)


def unschedulable(stage: Stage) -> None:
    """A pod that no node can take says so."""
    pod = {"nodeSelector": {"never": "there"}, "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    stage.make("v1/pods", "p", pod)
    stage.until("a condition", lambda: conditions(stage.get("v1/pods", "p")).get("PodScheduled"))
    stage.seen.append((stage.get("v1/pods", "p") or {})["status"]["phase"])
    stage.seen.append((stage.get("v1/pods", "p") or {})["status"]["conditions"][0]["message"])


def test_a_pod_that_no_node_can_take(real: Side, ours: Side) -> None:
    alike(real, ours, unschedulable)


def stateful(stage: Stage) -> None:
    """One pod after another, each with its name and its claim."""
    labels = {"app": "s"}
    claims = [
        {
            "metadata": {"name": "v"},
            "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "none", "resources": {"requests": {"storage": "1Gi"}}},
        }
    ]
    stage.make(
        "apps/v1/statefulsets",
        "s",
        {
            "serviceName": "s",
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": template(labels),
            "volumeClaimTemplates": claims,
        },
    )
    stage.until("the first", lambda: [p["metadata"]["name"] for p in stage.pods()])
    stage.seen.append([c["metadata"]["name"] for c in stage.all("v1/persistentvolumeclaims")])
    stage.fate(stage.pods()[0], "Running")
    stage.until("the second", lambda: len(stage.pods()) == 2)
    stage.seen.append([sorted(p["metadata"]["labels"]) for p in stage.pods()])
    stage.seen.append([(p["spec"]["hostname"], p["spec"]["subdomain"]) for p in stage.pods()])
    stage.change("apps/v1/statefulsets", "s", {"spec": {"replicas": 0}})
    stage.until("none", lambda: not stage.pods())
    stage.seen.append([c["metadata"]["name"] for c in stage.all("v1/persistentvolumeclaims")])


def test_a_stateful_set_in_order(real: Side, ours: Side) -> None:
    alike(real, ours, stateful)


def endpoints(stage: Stage) -> None:
    """A Service finds the ready pods."""
    stage.make("v1/services", "s", {"selector": {"app": "e"}, "clusterIP": "None", "ports": [{"port": 80, "targetPort": 8080}]})
    stage.make("v1/pods", "p", template({}, nodeName="a-node")["spec"], labels={"app": "e"})
    status = {"phase": "Running", "podIP": "10.9.9.9", "podIPs": [{"ip": "10.9.9.9"}], "conditions": _READY}
    stage.client.patch(stage.path("v1/pods", "p") + "/status", json={"status": status}, headers=_STATUS).raise_for_status()
    stage.until("an address", lambda: ((stage.get("v1/endpoints", "s") or {}).get("subsets") or [{}])[0].get("addresses"))
    subset = (stage.get("v1/endpoints", "s") or {})["subsets"][0]
    stage.seen.pop()
    stage.seen.append([(a["ip"], a["targetRef"]["kind"], a["targetRef"]["name"]) for a in subset["addresses"]])
    stage.seen.append(subset["ports"])


def test_a_service_finds_its_pods(real: Side, ours: Side) -> None:
    alike(real, ours, endpoints)
