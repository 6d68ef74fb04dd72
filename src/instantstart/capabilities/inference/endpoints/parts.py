"""The parts of an endpoint that take more than a line of a table: where the model lies, probes, triggers, resources, variables.

Each is a pair: ``build_...`` writes settings into the custom resource's spec, ``read_...`` is its inverse.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from instantstart.base import trees
from instantstart.base.trees import Tree
from instantstart.ensure.capacity.nodes import GPU

VOLUME = "model"
TOKEN_KEY = "token"  # noqa: S105 - the key's name
DEFAULT_HEALTH = "/health"
_TYPES = {"s3": "s3", "fsx": "fsx", "huggingface": "huggingface", "volume": "kubernetesVolume"}
_PLACES = {
    "s3": (("bucket", "s3Storage.bucketName"), ("region", "s3Storage.region"), ("location", "modelLocation")),
    "fsx": (
        ("file_system_id", "fsxStorage.fileSystemId"),
        ("file_system_dns", "fsxStorage.dnsName"),
        ("mount_name", "fsxStorage.mountName"),
        ("location", "modelLocation"),
    ),
    "huggingface": (
        ("repository", "huggingFaceModel.modelId"),
        ("commit", "huggingFaceModel.commitSHA"),
        ("token_secret", "huggingFaceModel.tokenSecretRef.name"),
    ),
    "volume": (("location", "modelLocation"),),
}
#: names and values by which a secret is known
_SECRET_NAME = re.compile(r"TOKEN|SECRET|PASSWORD|API_?KEY|CREDENTIAL", re.IGNORECASE)
_SECRET_VALUE = re.compile(r"\bhf_[A-Za-z0-9]{8,}")
HIDDEN = "(hidden)"
#: between two tries of the startup probe
_STARTUP_PERIOD_SECONDS = 10
_TRIGGER_FIELDS = {
    "cloudwatch": (
        ("name", "name"), ("target", "targetValue"), ("activation", "activationTargetValue"), ("namespace", "namespace"),
        ("metric", "metricName"), ("statistic", "metricStat"), ("dimensions", "dimensions"),
    ),
    "prometheus": (
        ("name", "name"), ("target", "targetValue"), ("activation", "activationTargetValue"), ("workspace", "serverAddress"),
        ("query", "query"),
    ),
}  # fmt: skip
_TRIGGER_LISTS = {"cloudwatch": "cloudWatchTrigger", "prometheus": "prometheusTrigger"}


def build_source(source: Mapping[str, Any], spec: Tree) -> None:
    """``modelSourceConfig``, and the pod's volume where a claim is the source."""
    kind = str(source.get("type"))
    if kind not in _TYPES:
        return
    config = spec.setdefault("modelSourceConfig", {})
    config["modelSourceType"] = _TYPES[kind]
    for ours, theirs in _PLACES[kind]:
        if source.get(ours) is not None:
            trees.put(config, theirs, source[ours])
    if source.get("token_secret") and kind == "huggingface":
        trees.put(config, "huggingFaceModel.tokenSecretRef.key", TOKEN_KEY)
    if kind == "volume":
        claim = {"name": VOLUME, "persistentVolumeClaim": {"claimName": source.get("claim")}}
        trees.put(spec, "kubernetes.volumes", [claim])


def read_source(spec: Mapping[str, Any], settings: Tree) -> None:
    """The inverse."""
    config = spec.get("modelSourceConfig") or {}
    kind = next((ours for ours, theirs in _TYPES.items() if theirs == config.get("modelSourceType")), None)
    if kind is None:
        return
    trees.put(settings, "source.type", kind)
    for ours, theirs in _PLACES[kind]:
        value = trees.get(config, theirs)
        if value:
            trees.put(settings, f"source.{ours}", value)
    volumes = trees.get(spec, "kubernetes.volumes") or []
    claim = next((v["persistentVolumeClaim"]["claimName"] for v in volumes if v.get("persistentVolumeClaim")), None)
    if kind == "volume" and claim:
        trees.put(settings, "source.claim", claim)


def build_probes(server: Mapping[str, Any], spec: Tree) -> None:
    """Startup as long as the model may take to load; readiness and liveness begin after it (case 62)."""
    port = server.get("probe_port") or server.get("port")
    if port is None:
        return
    check = {"httpGet": {"path": server.get("health_path") or DEFAULT_HEALTH, "port": port}}
    tries = -(-int(server.get("startup_seconds") or 1800) // _STARTUP_PERIOD_SECONDS)
    probes = {
        "startupProbe": {**check, "periodSeconds": _STARTUP_PERIOD_SECONDS, "failureThreshold": tries, "timeoutSeconds": 5},
        "readinessProbe": {**check, "periodSeconds": 5, "failureThreshold": 3, "timeoutSeconds": 5},
        "livenessProbe": {**check, "periodSeconds": 15, "failureThreshold": 8, "timeoutSeconds": 10},
    }
    trees.put(spec, "worker.probes", probes)


def read_probes(spec: Mapping[str, Any], settings: Tree) -> None:
    """The inverse, also for probes that somebody else wrote; ``probe_port`` only where it is not the server's."""
    probes = trees.get(spec, "worker.probes") or {}
    shown = probes.get("readinessProbe") or probes.get("startupProbe") or probes.get("livenessProbe") or {}
    check = shown.get("httpGet") or {}
    if check.get("path"):
        trees.put(settings, "server.health_path", check["path"])
    port = check.get("port")
    if isinstance(port, int) and port != trees.get(settings, "server.port"):
        trees.put(settings, "server.probe_port", port)
    startup = probes.get("startupProbe")
    if startup:
        trees.put(settings, "server.startup_seconds", int(startup.get("periodSeconds", 10)) * int(startup.get("failureThreshold", 3)))


def build_triggers(settings: Mapping[str, Any], spec: Tree) -> None:
    """The two lists of triggers."""
    for kind, fields in _TRIGGER_FIELDS.items():
        given = [t for t in trees.get(settings, "autoscaling.triggers") or () if t["type"] == kind]
        made = [{theirs: each[ours] for ours, theirs in fields if each.get(ours) is not None} for each in given]
        if made:
            trees.put(spec, f"autoScalingSpec.{_TRIGGER_LISTS[kind]}List", made)


def read_triggers(spec: Mapping[str, Any], settings: Tree) -> None:
    """The inverse; a single trigger of the older form is one of the list."""
    scaling = spec.get("autoScalingSpec") or {}
    found: list[Tree] = []
    for kind, fields in _TRIGGER_FIELDS.items():
        one, several = scaling.get(_TRIGGER_LISTS[kind]), scaling.get(f"{_TRIGGER_LISTS[kind]}List") or []
        for told in [*([one] if one else []), *several]:
            found.append({"type": kind} | {ours: told[theirs] for ours, theirs in fields if told.get(theirs) is not None})
    if found:
        trees.put(settings, "autoscaling.triggers", found)


def build_resources(server: Mapping[str, Any]) -> Tree:
    """Requests; memory and accelerators are also limits, so that no replica takes what is another's."""
    count = server.get("accelerators") or 0
    device = {server.get("accelerator_resource") or GPU: count} if count else {}
    memory = {"memory": server["memory"]} if server.get("memory") else {}
    cpu = {"cpu": server["cpu"]} if server.get("cpu") else {}
    limits = {**memory, **device}
    return {"requests": {**cpu, **memory, **device}} | ({"limits": limits} if limits else {})


def read_resources(resources: Mapping[str, Any], settings: Tree) -> None:
    """The inverse."""
    found = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    for name in ("cpu", "memory"):
        if name in found:
            trees.put(settings, f"server.{name}", str(found[name]))
    devices = {k: int(v) for k, v in found.items() if "/" in k and not k.startswith("vpc.amazonaws.com/")}
    trees.put(settings, "server.accelerators", next(iter(devices.values()), 0))
    other = next((k for k in devices if k != GPU), None)
    if other:
        trees.put(settings, "server.accelerator_resource", other)


def build_variables(settings: Mapping[str, Any]) -> list[Tree]:
    """Variables of the container; the session key of the router is one of them."""
    server = settings.get("server") or {}
    plain = dict(server.get("env") or {})
    key = trees.get(settings, "routing.session_key")
    if key:
        plain["SESSION_KEY"] = key
    made: list[Tree] = [{"name": name, "value": value} for name, value in plain.items()]
    for each in server.get("secret_env") or ():
        made.append({"name": each["name"], "valueFrom": {"secretKeyRef": {"name": each["secret"], "key": each["key"]}}})
    return made


def read_variables(variables: Sequence[Mapping[str, Any]], settings: Tree) -> None:
    """The inverse."""
    plain = {v["name"]: str(v.get("value", "")) for v in variables if not v.get("valueFrom")}
    if settings.get("routing") and "SESSION_KEY" in plain:
        trees.put(settings, "routing.session_key", plain.pop("SESSION_KEY"))
    if plain:
        trees.put(settings, "server.env", plain)
    held = [(v["name"], v["valueFrom"]["secretKeyRef"]) for v in variables if (v.get("valueFrom") or {}).get("secretKeyRef")]
    if held:
        trees.put(settings, "server.secret_env", [{"name": n, "secret": r.get("name", ""), "key": r["key"]} for n, r in held])


def secrets_in(settings: Mapping[str, Any]) -> list[str]:
    """Names of variables that look like secrets."""
    env = trees.get(settings, "server.env") or {}
    return [name for name, value in env.items() if _SECRET_NAME.search(name) or _SECRET_VALUE.search(str(value))]


def shown(settings: Tree) -> Tree:
    """Settings without the values of what looks like a secret: others may have written one."""
    hidden = secrets_in(settings)
    if not hidden:
        return settings
    env = {name: HIDDEN if name in hidden else value for name, value in settings["server"]["env"].items()}
    return {**settings, "server": {**settings["server"], "env": env}}


def kept(settings: Mapping[str, Any]) -> Tree:
    """Settings as an operation keeps them: variables cannot be changed, so they need not be remembered."""
    made = trees.merge({}, settings, {"env"})
    trees.drop(made, "server.env")
    return made
