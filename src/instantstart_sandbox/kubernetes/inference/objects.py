"""What the operator makes of an endpoint: volumes, Deployment, Service, router, Ingress, ScaledObject. Pure functions of its spec.

Names as the service has them: the Deployment bears the endpoint's own name and its pods the label ``app``; a reverse proxy and a metrics
collector stand beside the server; the load balancer is the Ingress ``alb-<name>`` in the endpoint's namespace.
"""

from __future__ import annotations

from typing import Any

from ..kubelet.programs import PROGRAM
from ..loops.objects import Object, annotations_of, name_of, namespace_of, owner_reference, spec_of
from ..machines import machine

PROXY_PORT, ROUTER_PORT = 8081, 8000
_TYPE = "node.kubernetes.io/instance-type"
_SERVING = "sandbox.instantstart.dev/serving"
_POLICIES = {"prefixaware": "cache_aware", "kvaware": "cache_aware", "session": "consistent_hashing", "roundrobin": "round_robin"}


def labels(owner: Object) -> dict[str, str]:
    """The labels of an endpoint's pods."""
    return {"app": name_of(owner), "deploying-service": "hyperpod-inference"}


def _made(owner: Object, api: str, kind: str, name: str, **fields: Any) -> Object:
    metadata = {"name": name, "namespace": namespace_of(owner), "labels": labels(owner), "ownerReferences": [owner_reference(owner)]}
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **fields}


def affinity(spec: Object) -> Object:
    """Where the pods may run."""
    wanted = [spec["instanceType"]] if spec.get("instanceType") else spec.get("instanceTypes") or []
    if "server" in spec:
        wanted = [spec["server"]["instanceType"]]
    node = spec.get("nodeAffinity")
    if wanted:
        term = {"matchExpressions": [{"key": _TYPE, "operator": "In", "values": list(wanted)}]}
        node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    return {"nodeAffinity": node} if node else {}


def port_of(spec: Object) -> int:
    """Where the server listens."""
    worker = spec.get("worker")
    return int(worker["modelInvocationPort"]["containerPort"]) if worker else 8080


def deployment(owner: Object) -> Object:
    """The server's Deployment. Its replicas are left out while an autoscaler has them."""
    spec = spec_of(owner)
    main = _worker(owner) if "worker" in spec else _jumpstart(owner)
    extra = (spec.get("kubernetes") or {}) if "worker" in spec else {}
    volumes = [*_model_volumes(owner), *(extra.get("volumes") or []), {"name": "dshm", "emptyDir": {"medium": "Memory"}}]
    pod: Object = {
        "affinity": affinity(spec),
        "containers": [main, *_sidecars()],
        "volumes": volumes,
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": 60,
    }
    for theirs in ("initContainers", "schedulerName", "serviceAccountName"):
        if extra.get(theirs):
            pod[theirs] = extra[theirs]
    notes = {f"{PROGRAM}.{main['name']}": "serving"}
    notes |= {k: v for k, v in annotations_of(owner).items() if k.startswith("sandbox.instantstart.dev/") and k == _SERVING}
    template = {"metadata": {"labels": labels(owner), "annotations": notes}, "spec": pod}
    wanted: Object = {"selector": {"matchLabels": {"app": name_of(owner)}}, "template": template}
    wanted["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    if not spec.get("autoScalingSpec"):
        wanted["replicas"] = spec.get("replicas", 1)
    return _made(owner, "apps/v1", "Deployment", name_of(owner), spec=wanted)


def _probes(given: Object, port: int) -> Object:
    path = {"path": "/ping", "port": port}
    readiness = {"httpGet": path, "periodSeconds": 10}
    startup = {"httpGet": path, "periodSeconds": 10, "failureThreshold": 360}
    return {"readinessProbe": given.get("readinessProbe") or readiness, "startupProbe": given.get("startupProbe") or startup} | (
        {"livenessProbe": given["livenessProbe"]} if given.get("livenessProbe") else {}
    )


def _worker(owner: Object) -> Object:
    spec, worker = spec_of(owner), spec_of(owner)["worker"]
    port, mount = worker["modelInvocationPort"], worker["modelVolumeMount"]
    container: Object = {
        "name": name_of(owner),
        "image": worker["image"],
        "ports": [{"name": port.get("name", "http"), "containerPort": port["containerPort"]}],
        "resources": worker["resources"],
        "env": [*(worker.get("environmentVariables") or []), *_model_env(spec)],
        "volumeMounts": [*_model_mounts(spec, mount), {"name": "dshm", "mountPath": "/dev/shm"}],  # noqa: S108 - the pod's own
        **_probes(worker.get("probes") or {}, port["containerPort"]),
    }
    for theirs in ("command", "args", "workingDir"):
        if worker.get(theirs):
            container[theirs] = worker[theirs]
    return container


def _jumpstart(owner: Object) -> Object:
    spec = spec_of(owner)
    kind = machine(spec["server"]["instanceType"])
    count = {"nvidia.com/gpu": str(kind.gpus)} if kind.gpus else {"aws.amazon.com/neurondevice": str(kind.neuron_devices)}
    limits = {k: v for k, v in count.items() if v != "0"}
    env = [{"name": "HF_MODEL_ID", "value": f"jumpstart/{spec['model']['modelId']}"}, *(spec.get("environmentVariables") or [])]
    if kind.gpus:
        env.append({"name": "OPTION_TENSOR_PARALLEL_DEGREE", "value": str(kind.gpus)})
    return {
        "name": name_of(owner),
        "image": "jumpstart/djl-inference:0.36.0-lmi18",
        "ports": [{"name": "http", "containerPort": 8080}],
        "resources": {"limits": limits, "requests": limits},
        "env": env,
        **_probes({}, 8080),
    }


def _sidecars() -> list[Object]:
    proxy = {"name": "sidecar-reverse-proxy", "image": "hyperpod/reverse-proxy:v3", "ports": [{"containerPort": PROXY_PORT}]}
    return [proxy, {"name": "otel-collector", "image": "hyperpod/otel-collector:v3"}]


# ---------------------------------------------------------------------- the model


def _kind(spec: Object) -> str:
    return str((spec.get("modelSourceConfig") or {}).get("modelSourceType", ""))


def _model_env(spec: Object) -> list[Object]:
    mount = spec["worker"]["modelVolumeMount"]["mountPath"]
    if _kind(spec) != "huggingface":
        return [{"name": "SM_MODEL_DIR", "value": mount}]
    source = spec["modelSourceConfig"]["huggingFaceModel"]
    found: list[Object] = [{"name": "HF_MODEL_ID", "value": source["modelId"]}]
    if secret := source.get("tokenSecretRef"):
        found.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": secret["name"], "key": secret["key"]}}})
    return found


def _model_mounts(spec: Object, mount: Object) -> list[Object]:
    found = {"name": mount["name"], "mountPath": mount["mountPath"]}
    location = str(spec["modelSourceConfig"].get("modelLocation") or "").strip("/")
    if location and _kind(spec) in ("fsx", "kubernetesVolume"):
        found["subPath"] = location
    return [found]


def _model_volumes(owner: Object) -> list[Object]:
    spec = spec_of(owner)
    if "worker" not in spec or _kind(spec) == "kubernetesVolume":
        return []
    name = spec["worker"]["modelVolumeMount"]["name"]
    if _kind(spec) == "huggingface":
        return [{"name": name, "emptyDir": {}}]
    return [{"name": name, "persistentVolumeClaim": {"claimName": f"{name_of(owner)}-model"}}]


def storage(owner: Object) -> list[Object]:
    """The claim of the model's files and the volume for it; none where they are no bucket and no file system."""
    spec = spec_of(owner)
    source, name = spec.get("modelSourceConfig") or {}, f"{name_of(owner)}-model"
    if _kind(spec) == "s3":
        place = source["s3Storage"]
        prefix = str(source.get("modelLocation") or "").strip("/")
        options = ["read-only", f"region {place['region']}", *([f"prefix {prefix}/"] if prefix else [])]
        csi = {"driver": "s3.csi.aws.com", "volumeAttributes": {"bucketName": place["bucketName"]}}
    elif _kind(spec) == "fsx":
        place, options = source["fsxStorage"], ["flock"]
        dns = place.get("dnsName") or f"{place['fileSystemId']}.fsx"
        csi = {"driver": "fsx.csi.aws.com", "volumeAttributes": {"dnsname": dns, "mountname": place.get("mountName", "fsx")}}
    else:
        return []
    bound = f"{namespace_of(owner)}-{name}"
    csi["volumeHandle"] = f"{bound}-{owner['metadata']['uid'][:8]}"
    common = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    size = {"storage": "1200Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": bound, "labels": labels(owner)},
        "spec": {
            **common,
            "capacity": size,
            "mountOptions": options,
            "csi": csi,
            "claimRef": {"namespace": namespace_of(owner), "name": name},
        },
    }
    claim = _made(owner, "v1", "PersistentVolumeClaim", name)
    claim["spec"] = {**common, "resources": {"requests": size}, "volumeName": bound}
    return [volume, claim]


# ---------------------------------------------------------------------- the way in


def services(owner: Object) -> list[Object]:
    """The Service in front of the servers, and what intelligent routing adds: a router with its account, rights and Service."""
    name, port = name_of(owner), port_of(spec_of(owner))
    ports = [{"name": "http", "port": port, "targetPort": port}, {"name": "proxy", "port": PROXY_PORT, "targetPort": port}]
    ports = ports if port != PROXY_PORT else ports[:1]
    found = [_made(owner, "v1", "Service", f"{name}-service", spec={"selector": {"app": name}, "ports": ports})]
    routing = spec_of(owner).get("intelligentRoutingSpec") or {}
    return [*found, *_router(owner, str(routing.get("routingStrategy", "prefixaware")))] if routing.get("enabled") else found


def _router(owner: Object, strategy: str) -> list[Object]:
    name, port = f"{name_of(owner)}-router", port_of(spec_of(owner))
    words = ["--service-discovery", "--service-discovery-namespace", namespace_of(owner), "--service-discovery-port", str(port)]
    words += ["--selector", f"app={name_of(owner)}", "--policy", _POLICIES[strategy], "--host", "0.0.0.0", "--port", str(ROUTER_PORT)]
    probe = {"httpGet": {"path": "/liveness", "port": ROUTER_PORT}, "periodSeconds": 5}
    container: Object = {"name": "router", "image": "hyperpod/sglang-router:v3", "args": words, "ports": [{"containerPort": ROUTER_PORT}]}
    container["readinessProbe"] = probe
    pod = {"serviceAccountName": name, "containers": [container]}
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    wanted = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template}
    rights = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name}
    subject = [{"kind": "ServiceAccount", "name": name, "namespace": namespace_of(owner)}]
    rbac = "rbac.authorization.k8s.io/v1"
    ports = [{"name": "http", "port": ROUTER_PORT, "targetPort": ROUTER_PORT}]
    return [
        _made(owner, "v1", "ServiceAccount", name),
        _made(owner, rbac, "Role", name, rules=rights),
        _made(owner, rbac, "RoleBinding", name, roleRef=role, subjects=subject),
        _made(owner, "apps/v1", "Deployment", name, spec=wanted),
        _made(owner, "v1", "Service", f"{name_of(owner)}-routing-service", spec={"selector": {"app": name}, "ports": ports}),
    ]


def ingress(owner: Object) -> Object:
    """The application load balancer in front."""
    spec, name = spec_of(owner), name_of(owner)
    routed = (spec.get("intelligentRoutingSpec") or {}).get("enabled")
    target = (f"{name}-routing-service", ROUTER_PORT) if routed else (f"{name}-service", port_of(spec))
    wish = spec.get("loadBalancer") or {}
    backend = {"service": {"name": target[0], "port": {"number": target[1]}}}
    rule: Object = {"http": {"paths": [{"path": "/", "pathType": "Prefix", "backend": backend}]}}
    made = _made(owner, "networking.k8s.io/v1", "Ingress", f"alb-{name}", spec={"ingressClassName": "alb", "rules": [rule]})
    prefix = "alb.ingress.kubernetes.io/"
    made["metadata"]["annotations"] = {
        prefix + "scheme": "internal",
        prefix + "target-type": "ip",
        prefix + "listen-ports": '[{"HTTPS":443}]',
        prefix + "healthcheck-path": wish.get("healthCheckPath", "/ping"),
        prefix + "target-group-attributes": f"load_balancing.algorithm.type={wish.get('routingAlgorithm', 'least_outstanding_requests')}",
    }
    return made


def scaled_object(owner: Object, region: str) -> Object | None:
    """KEDA's ScaledObject for the endpoint's triggers."""
    scaling = spec_of(owner).get("autoScalingSpec")
    if not scaling:
        return None
    watches = [scaling.get("cloudWatchTrigger"), *(scaling.get("cloudWatchTriggerList") or [])]
    queries = [scaling.get("prometheusTrigger"), *(scaling.get("prometheusTriggerList") or [])]
    triggers = [_cloudwatch(t, region) for t in watches if t] + [_prometheus(t, region) for t in queries if t]
    down, up = scaling["scaleDownStabilizationTime"], scaling["scaleUpStabilizationTime"]
    behavior = {"scaleDown": {"stabilizationWindowSeconds": down}, "scaleUp": {"stabilizationWindowSeconds": up}}
    wanted = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name_of(owner)},
        "minReplicaCount": scaling["minReplicaCount"],
        "maxReplicaCount": scaling["maxReplicaCount"],
        "pollingInterval": scaling["pollingInterval"],
        "cooldownPeriod": scaling["cooldownPeriod"],
        "triggers": triggers,
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": behavior}},
    }
    return _made(owner, "keda.sh/v1alpha1", "ScaledObject", f"{name_of(owner)}-scaledobject", spec=wanted)


def _cloudwatch(trigger: Object, region: str) -> Object:
    dimensions = trigger.get("dimensions") or []
    metadata = {
        "namespace": trigger.get("namespace", ""),
        "metricName": trigger.get("metricName", ""),
        "dimensionName": ";".join(d["name"] for d in dimensions),
        "dimensionValue": ";".join(d["value"] for d in dimensions),
        "targetMetricValue": f"{trigger.get('targetValue', 1):g}",
        "minMetricValue": f"{trigger.get('minValue', 0):g}",
        "activationTargetMetricValue": f"{trigger.get('activationTargetValue', 0):g}",
        "awsRegion": region,
        "identityOwner": "operator",
    }
    return {"type": "aws-cloudwatch", "metadata": metadata}


def _prometheus(trigger: Object, region: str) -> Object:
    metadata = {
        "serverAddress": trigger.get("serverAddress", ""),
        "query": trigger.get("query", ""),
        "threshold": f"{trigger.get('targetValue', 1):g}",
        "activationThreshold": f"{trigger.get('activationTargetValue', 0):g}",
        "awsRegion": region,
        "identityOwner": "operator",
    }
    return {"type": "prometheus", "metadata": metadata}
