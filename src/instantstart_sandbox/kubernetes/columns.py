"""The columns that ``kubectl get`` prints for built-in kinds, and their cells."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes.resources import Column

Object = dict[str, Any]
Cells = Callable[[Object, float], list[Any]]

NAME: Final = Column("Name", "string", ".metadata.name", "name")
AGE: Final = Column("Age", "string", ".metadata.creationTimestamp")


def _columns(*names: str) -> tuple[Column, ...]:
    """``*`` in front: only shown with -o wide; ``#``: an integer."""
    return tuple(
        Column(bare, "integer" if "#" in n[:2] else "string", "", "name" if bare == "Name" else "", 1 if n[0] == "*" else 0)
        for n in names
        for bare in (n.lstrip("*#"),)
    )


def age(stamp: str | None, now: float) -> str:
    """How long ago, as kubectl prints it (``5s``, ``3m``, ``2h``, ``4d``)."""
    if not stamp:
        return "<unknown>"
    seconds = max(int(now - dt.datetime.fromisoformat(stamp).timestamp()), 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 730:
        return f"{days}d{hours % 24}h" if days < 8 and hours % 24 else f"{days}d"
    years, rest = divmod(days, 365)
    return f"{years}y{rest}d" if years < 8 and rest else f"{years}y"


def created(obj: Object, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def name_of(obj: Object) -> str:
    return str(obj["metadata"].get("name", ""))


def _part(obj: Object, *path: str, default: Any = "") -> Any:
    value: Any = obj
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return default if value is None else value


def _listed(values: Any, none: str = "<none>") -> str:
    return ",".join(str(v) for v in values) or none


# ---------------------------------------------------------------------- pods


def _container_reason(status: Object) -> str | None:
    state = status.get("state") or {}
    if (state.get("waiting") or {}).get("reason"):
        return str(state["waiting"]["reason"])
    ended = state.get("terminated")
    if ended is None:
        return None
    if ended.get("reason"):
        return str(ended["reason"])
    return f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"


def _init_reason(pod: Object) -> str | None:
    statuses = _part(pod, "status", "initContainerStatuses", default=[])
    for index, status in enumerate(statuses):
        ended = (status.get("state") or {}).get("terminated")
        if ended is not None and ended.get("exitCode", 0) == 0:
            continue
        reason = _container_reason(status)
        if reason and reason != "PodInitializing":
            return f"Init:{reason}"
        return f"Init:{index}/{len(_part(pod, 'spec', 'initContainers', default=[]))}"
    return None


def pod_status(pod: Object) -> str:
    """The STATUS column of a Pod."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase", "")
    if any(c.get("type") == "PodScheduled" and c.get("reason") == "SchedulingGated" for c in status.get("conditions") or ()):
        reason = "SchedulingGated"
    waiting = _init_reason(pod)
    if waiting:
        reason = waiting
    else:
        for container in reversed(status.get("containerStatuses") or ()):
            reason = _container_reason(container) or reason
        running = any("running" in (c.get("state") or {}) and c.get("ready") for c in status.get("containerStatuses") or ())
        if reason == "Completed" and running:
            reason = "Running"
    if pod["metadata"].get("deletionTimestamp"):
        return "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    return str(reason)


def _restarts(pod: Object, now: float) -> str:
    statuses = _part(pod, "status", "containerStatuses", default=[])
    count = sum(c.get("restartCount", 0) for c in statuses)
    ended = [_part(c, "lastState", "terminated", "finishedAt") for c in statuses]
    last = max((e for e in ended if e), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _pod(obj: Object, now: float) -> list[Any]:
    statuses = _part(obj, "status", "containerStatuses", default=[])
    ready = f"{sum(bool(c.get('ready')) for c in statuses)}/{len(_part(obj, 'spec', 'containers', default=[]))}"
    gates = _part(obj, "spec", "readinessGates", default=[])
    return [
        name_of(obj),
        ready,
        pod_status(obj),
        _restarts(obj, now),
        created(obj, now),
        _part(obj, "status", "podIP", default="<none>"),
        _part(obj, "spec", "nodeName", default="<none>"),
        _part(obj, "status", "nominatedNodeName", default="<none>"),
        f"0/{len(gates)}" if gates else "<none>",
    ]


# ---------------------------------------------------------------------- nodes and workloads


def _node(obj: Object, now: float) -> list[Any]:
    conditions = {c.get("type"): c.get("status") for c in _part(obj, "status", "conditions", default=[])}
    state = {"True": "Ready", "False": "NotReady"}.get(conditions.get("Ready", ""), "Unknown" if "Ready" not in conditions else "NotReady")
    if _part(obj, "spec", "unschedulable", default=False):
        state += ",SchedulingDisabled"
    prefix = "node-role.kubernetes.io/"
    roles = sorted(k.removeprefix(prefix) for k in obj["metadata"].get("labels") or {} if k.startswith(prefix))
    addresses = {a.get("type"): a.get("address") for a in _part(obj, "status", "addresses", default=[])}
    info = _part(obj, "status", "nodeInfo", default={})
    return [
        name_of(obj),
        state,
        _listed(roles),
        created(obj, now),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage", "<unknown>"),
        info.get("kernelVersion", "<unknown>"),
        info.get("containerRuntimeVersion", "<unknown>"),
    ]


def _containers(obj: Object) -> tuple[str, str]:
    found = _part(obj, "spec", "template", "spec", "containers", default=[])
    return ",".join(c.get("name", "") for c in found), ",".join(c.get("image", "") for c in found)


def _selector(obj: Object) -> str:
    return _listed(f"{k}={v}" for k, v in sorted(_part(obj, "spec", "selector", "matchLabels", default={}).items()))


def _deployment(obj: Object, now: float) -> list[Any]:
    status = obj.get("status") or {}
    ready = f"{status.get('readyReplicas', 0)}/{_part(obj, 'spec', 'replicas', default=0)}"
    names, images = _containers(obj)
    available = status.get("availableReplicas", 0)
    return [name_of(obj), ready, status.get("updatedReplicas", 0), available, created(obj, now), names, images, _selector(obj)]


def _replica_set(obj: Object, now: float) -> list[Any]:
    status = obj.get("status") or {}
    names, images = _containers(obj)
    wanted = _part(obj, "spec", "replicas", default=0)
    return [
        name_of(obj),
        wanted,
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        created(obj, now),
        names,
        images,
        _selector(obj),
    ]


def _stateful_set(obj: Object, now: float) -> list[Any]:
    ready = f"{_part(obj, 'status', 'readyReplicas', default=0)}/{_part(obj, 'spec', 'replicas', default=0)}"
    return [name_of(obj), ready, created(obj, now), *_containers(obj)]


def _daemon_set(obj: Object, now: float) -> list[Any]:
    status = obj.get("status") or {}
    fields = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled", "numberAvailable")
    chosen = _listed(f"{k}={v}" for k, v in sorted(_part(obj, "spec", "template", "spec", "nodeSelector", default={}).items()))
    return [name_of(obj), *(status.get(f, 0) for f in fields), chosen, created(obj, now), *_containers(obj), _selector(obj)]


def _job(obj: Object, now: float) -> list[Any]:
    status = obj.get("status") or {}
    conditions = {c.get("type") for c in status.get("conditions") or () if c.get("status") == "True"}
    state = next((s for c, s in (("Complete", "Complete"), ("Failed", "Failed"), ("Suspended", "Suspended")) if c in conditions), "Running")
    wanted = _part(obj, "spec", "completions", default=None)
    done = f"{status.get('succeeded', 0)}/{wanted if wanted is not None else '1 of ' + str(_part(obj, 'spec', 'parallelism', default=1))}"
    took = ""
    if status.get("startTime"):
        end = status.get("completionTime")
        took = age(status["startTime"], dt.datetime.fromisoformat(end).timestamp() if end else now)
    return [name_of(obj), state, done, took, created(obj, now), *_containers(obj), _selector(obj)]


def _cron_job(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    last = age(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else "<none>"
    active = len(status.get("active") or ())
    zone = spec.get("timeZone", "<none>")
    return [name_of(obj), spec.get("schedule", ""), zone, str(bool(spec.get("suspend"))), active, last, created(obj, now)]


# ---------------------------------------------------------------------- services, storage, the rest


def _service(obj: Object, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    ingress = _part(obj, "status", "loadBalancer", "ingress", default=[])
    outside = _listed((i.get("hostname") or i.get("ip") for i in ingress), "<pending>" if spec.get("type") == "LoadBalancer" else "<none>")
    ports = _listed(
        f"{p['port']}:{p['nodePort']}/{p.get('protocol', 'TCP')}" if p.get("nodePort") else f"{p['port']}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports") or ()
    )
    chosen = _listed(f"{k}={v}" for k, v in sorted((spec.get("selector") or {}).items()))
    return [name_of(obj), spec.get("type", ""), spec.get("clusterIP", "<none>"), outside, ports, created(obj, now), chosen]


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(spec: Object) -> str:
    return ",".join(_MODES.get(m, m) for m in spec.get("accessModes") or ())


def _claim(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bound = bool(spec.get("volumeName"))
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    capacity = _part(status, "capacity", "storage") if bound else ""
    return [
        name_of(obj),
        phase,
        spec.get("volumeName", ""),
        capacity,
        _modes(spec) if bound else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        created(obj, now),
        spec.get("volumeMode", ""),
    ]


def _volume(obj: Object, now: float) -> list[Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    claim = spec.get("claimRef")
    phase = "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", "")
    return [
        name_of(obj),
        _part(spec, "capacity", "storage"),
        _modes(spec),
        spec.get("persistentVolumeReclaimPolicy", ""),
        phase,
        f"{claim.get('namespace')}/{claim.get('name')}" if claim else "",
        spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        status.get("reason", ""),
        created(obj, now),
        spec.get("volumeMode", ""),
    ]


def _storage_class(obj: Object, now: float) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get("storageclass.kubernetes.io/is-default-class") == "true"
    expands = str(bool(obj.get("allowVolumeExpansion"))).lower()
    return [
        name_of(obj) + (" (default)" if default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", ""),
        obj.get("volumeBindingMode", ""),
        expands,
        created(obj, now),
    ]


def _event(obj: Object, now: float) -> list[Any]:
    about = obj.get("involvedObject") or {}
    last = obj.get("lastTimestamp") or obj.get("eventTime") or obj["metadata"].get("creationTimestamp")
    first = obj.get("firstTimestamp") or last
    where = f"{about.get('kind', '').lower()}/{about.get('name', '')}"
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        where,
        about.get("fieldPath", ""),
        _part(obj, "source", "component"),
        obj.get("message", "").strip(),
        age(first, now),
        obj.get("count", 1),
        name_of(obj),
    ]


def _namespace(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), _part(obj, "status", "phase"), created(obj, now)]


def _ingress(obj: Object, now: float) -> list[Any]:
    spec, balanced = obj.get("spec") or {}, _part(obj, "status", "loadBalancer", "ingress", default=[])
    hosts = [r["host"] for r in spec.get("rules") or () if r.get("host")]
    shown = ",".join(hosts[:3]) + (f" + {len(hosts) - 3} more..." if len(hosts) > 3 else "") if hosts else "*"
    address = ",".join(i.get("hostname") or i.get("ip", "") for i in balanced)
    return [name_of(obj), spec.get("ingressClassName", "<none>"), shown, address, "80, 443" if spec.get("tls") else "80", created(obj, now)]


def _config_map(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("data") or {}) + len(obj.get("binaryData") or {}), created(obj, now)]


def _secret(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("type", ""), len(obj.get("data") or {}), created(obj, now)]


def _account(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), len(obj.get("secrets") or ()), created(obj, now)]


def _endpoints(obj: Object, now: float) -> list[Any]:
    found = [f"{a['ip']}:{p['port']}" for s in obj.get("subsets") or () for a in s.get("addresses") or () for p in s.get("ports") or ()]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [name_of(obj), shown or "<none>", created(obj, now)]


def _priority_class(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), obj.get("value", 0), bool(obj.get("globalDefault")), created(obj, now), obj.get("preemptionPolicy", "")]


def _binding(obj: Object, now: float) -> list[Any]:
    reference = obj.get("roleRef") or {}
    subjects = obj.get("subjects") or ()
    named = [
        ",".join(
            s.get("name", "") if kind != "ServiceAccount" else f"{s.get('namespace', '')}/{s.get('name', '')}"
            for s in subjects
            if s.get("kind") == kind
        )
        for kind in ("User", "Group", "ServiceAccount")
    ]
    return [name_of(obj), f"{reference.get('kind')}/{reference.get('name')}", created(obj, now), *named]


def _budget(obj: Object, now: float) -> list[Any]:
    spec = obj.get("spec") or {}
    allowed = _part(obj, "status", "disruptionsAllowed", default=0)
    return [name_of(obj), str(spec.get("minAvailable", "N/A")), str(spec.get("maxUnavailable", "N/A")), allowed, created(obj, now)]


def _definition(obj: Object, _: float) -> list[Any]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _role(obj: Object, _: float) -> list[Any]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _lease(obj: Object, now: float) -> list[Any]:
    return [name_of(obj), _part(obj, "spec", "holderIdentity"), created(obj, now)]


_WORKLOAD_WIDE: Final = ("*Containers", "*Images")
#: resource -> (columns, function from an object and the virtual now to its cells)
BY_RESOURCE: Final[dict[str, tuple[tuple[Column, ...], Cells]]] = {
    "pods": (_columns("Name", "Ready", "Status", "Restarts", "Age", "*IP", "*Node", "*Nominated Node", "*Readiness Gates"), _pod),
    "nodes": (
        _columns(
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "*Internal-IP",
            "*External-IP",
            "*OS-Image",
            "*Kernel-Version",
            "*Container-Runtime",
        ),
        _node,
    ),
    "deployments.apps": (_columns("Name", "Ready", "Up-to-date", "Available", "Age", *_WORKLOAD_WIDE, "*Selector"), _deployment),
    "replicasets.apps": (_columns("Name", "#Desired", "#Current", "#Ready", "Age", *_WORKLOAD_WIDE, "*Selector"), _replica_set),
    "statefulsets.apps": (_columns("Name", "Ready", "Age", *_WORKLOAD_WIDE), _stateful_set),
    "daemonsets.apps": (
        _columns(
            "Name", "#Desired", "#Current", "#Ready", "#Up-to-date", "#Available", "Node Selector", "Age", *_WORKLOAD_WIDE, "*Selector"
        ),
        _daemon_set,
    ),
    "jobs.batch": (_columns("Name", "Status", "Completions", "Duration", "Age", *_WORKLOAD_WIDE, "*Selector"), _job),
    "cronjobs.batch": (_columns("Name", "Schedule", "Timezone", "Suspend", "#Active", "Last Schedule", "Age"), _cron_job),
    "services": (_columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "*Selector"), _service),
    "persistentvolumeclaims": (
        _columns("Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "*VolumeMode"),
        _claim,
    ),
    "persistentvolumes": (
        _columns(
            "Name",
            "Capacity",
            "Access Modes",
            "Reclaim Policy",
            "Status",
            "Claim",
            "StorageClass",
            "VolumeAttributesClass",
            "Reason",
            "Age",
            "*VolumeMode",
        ),
        _volume,
    ),
    "storageclasses.storage.k8s.io": (
        _columns("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class,
    ),
    "events": (
        _columns("Last Seen", "Type", "Reason", "Object", "*Subobject", "*Source", "Message", "*First Seen", "*Count", "*Name"),
        _event,
    ),
    "namespaces": (_columns("Name", "Status", "Age"), _namespace),
    "ingresses.networking.k8s.io": (_columns("Name", "Class", "Hosts", "Address", "Ports", "Age"), _ingress),
    "configmaps": (_columns("Name", "Data", "Age"), _config_map),
    "secrets": (_columns("Name", "Type", "Data", "Age"), _secret),
    "serviceaccounts": (_columns("Name", "Secrets", "Age"), _account),
    "endpoints": (_columns("Name", "Endpoints", "Age"), _endpoints),
    "priorityclasses.scheduling.k8s.io": (_columns("Name", "#Value", "Global-Default", "Age", "PreemptionPolicy"), _priority_class),
    "rolebindings.rbac.authorization.k8s.io": (_columns("Name", "Role", "Age", "*Users", "*Groups", "*ServiceAccounts"), _binding),
    "clusterrolebindings.rbac.authorization.k8s.io": (_columns("Name", "Role", "Age", "*Users", "*Groups", "*ServiceAccounts"), _binding),
    "roles.rbac.authorization.k8s.io": (_columns("Name", "Created At"), _role),
    "clusterroles.rbac.authorization.k8s.io": (_columns("Name", "Created At"), _role),
    "poddisruptionbudgets.policy": (_columns("Name", "Min Available", "Max Unavailable", "#Allowed Disruptions", "Age"), _budget),
    "customresourcedefinitions.apiextensions.k8s.io": ((NAME, Column("Created At", "date", "")), _definition),
    "leases.coordination.k8s.io": (_columns("Name", "Holder", "Age"), _lease),
}
