"""What a process is told of its pod, its node and the sandbox's time: environment variables that only our own programs read."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..loops.objects import Object, annotations_of, labels_of, namespace_of, spec_of, uid_of
from ..loops.quantity import amount

if TYPE_CHECKING:
    from ..cluster import Cluster

_PREFIX = "INSTANTSTART_SANDBOX_"
_SERVING = "sandbox.instantstart.dev/serving"
_TYPE = "node.kubernetes.io/instance-type"
_ACCELERATORS = ("nvidia.com/", "aws.amazon.com/neuron", "amd.com/gpu")
_TOKEN_SECONDS = 24 * 3600


def told(cluster: Cluster, pod: Object, container: Object, folder: Path) -> dict[str, str]:
    """The variables. ``folder`` is the pod's own."""
    node = cluster.read("nodes", spec_of(pod).get("nodeName") or "") or {}
    limits = (container.get("resources") or {}).get("limits") or {}
    count = sum(int(amount(v)) for k, v in limits.items() if k.startswith(_ACCELERATORS) and not k.endswith("core"))
    port = next((p["containerPort"] for p in container.get("ports") or []), "")
    found = {
        "CLOCK": str(clock_file(cluster)),
        "GPUS": str(count),
        "INSTANCE_TYPE": labels_of(node).get(_TYPE, ""),
        "IMAGE": str(container.get("image", "")),
        "PORT": str(port),
        "SERVING": annotations_of(pod).get(_SERVING, ""),
    }
    if token := _service_account(cluster, pod, folder):
        found |= {"SERVICEACCOUNT": str(token), "API": api_url(cluster)}
    return {_PREFIX + name: value for name, value in found.items() if value != ""}


def api_url(cluster: Cluster) -> str:
    """Where the API server listens; empty for a cluster on a bench."""
    record = cluster.data_dir / "cluster.json"
    return f"https://127.0.0.1:{json.loads(record.read_bytes())['port']}" if record.exists() else ""


def _service_account(cluster: Cluster, pod: Object, folder: Path) -> Path | None:
    """The folder with the token, CA and namespace of the pod's account, as a pod finds them mounted; None when it mounts none."""
    mounted = any("projected" in v and v["name"].startswith("kube-api-access") for v in spec_of(pod).get("volumes") or [])
    account = cluster.read("serviceaccounts", spec_of(pod).get("serviceAccountName") or "default", namespace_of(pod))
    if not mounted or account is None:
        return None
    place = folder / "serviceaccount"
    place.mkdir(parents=True, exist_ok=True)
    bound = {"kind": "Pod", "name": pod["metadata"]["name"], "uid": uid_of(pod)}
    text, _ = cluster.tokens.issue(account, {"expirationSeconds": _TOKEN_SECONDS, "boundObjectRef": bound})
    with os.fdopen(os.open(place / "token", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    (place / "ca.crt").write_text(cluster.ca_pem)
    (place / "namespace").write_text(namespace_of(pod))
    return place


def clock_file(cluster: Cluster) -> Path:
    """Where processes read the virtual time."""
    return cluster.data_dir / "clock.json"


def write_clock(cluster: Cluster) -> None:
    """Write how virtual and real time stand to one another now."""
    clock, place = cluster.clock, clock_file(cluster)
    if not place.parent.is_dir():
        return
    fresh = place.with_suffix(".new")
    fresh.write_text(json.dumps({"virtual": clock.now(), "real": time.time(), "rate": clock.rate}))
    fresh.replace(place)
