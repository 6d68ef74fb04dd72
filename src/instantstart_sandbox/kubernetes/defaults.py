"""Defaults of the built-in kinds: the fields that the API server fills in and that clients or controllers then read."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final

from instantstart_sandbox.kubernetes import quantities

Object = dict[str, Any]

_MODE: Final = 420


def _fill(target: Object, **values: Any) -> None:
    for key, value in values.items():
        target.setdefault(key, value)


# ---------------------------------------------------------------------- pods and their templates


def _pull_policy(image: str) -> str:
    last = image.rsplit("/", 1)[-1]
    tag = last.split("@", 1)[0].partition(":")[2]
    return "Always" if "@" not in last and tag in ("", "latest") else "IfNotPresent"


def _probe(probe: Object) -> None:
    _fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
    if "httpGet" in probe:
        _fill(probe["httpGet"], path="/", scheme="HTTP")
    if "grpc" in probe:
        _fill(probe["grpc"], service="")


def _round(resources: Object) -> None:
    for listed in (resources.get("limits") or {}, resources.get("requests") or {}):
        for name, quantity in listed.items():
            listed[name] = quantities.rounded(quantity)


def _container(container: Object, host_network: bool) -> None:
    _fill(
        container,
        terminationMessagePath="/dev/termination-log",
        terminationMessagePolicy="File",
        imagePullPolicy=_pull_policy(container.get("image", "")),
        resources={},
    )
    _round(container["resources"])
    for port in container.get("ports") or ():
        _fill(port, protocol="TCP")
        if host_network:
            _fill(port, hostPort=port.get("containerPort"))
    for env in container.get("env") or ():
        reference = (env.get("valueFrom") or {}).get("fieldRef")
        if reference:
            _fill(reference, apiVersion="v1")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name):
            _probe(container[name])
    for hook in (container.get("lifecycle") or {}).values():
        if "httpGet" in hook:
            _fill(hook["httpGet"], path="/", scheme="HTTP")


def _volume(volume: Object) -> None:
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            _fill(volume[source], defaultMode=_MODE)
    for part in (volume.get("projected") or {}).get("sources") or ():
        if "serviceAccountToken" in part:
            _fill(part["serviceAccountToken"], expirationSeconds=3600)
    if "hostPath" in volume:
        _fill(volume["hostPath"], type="")
    for item in _downward_items(volume):
        if "fieldRef" in item:
            _fill(item["fieldRef"], apiVersion="v1")
    if set(volume) <= {"name"}:
        volume["emptyDir"] = {}


def _downward_items(volume: Object) -> list[Object]:
    found = list((volume.get("downwardAPI") or {}).get("items") or ())
    for part in (volume.get("projected") or {}).get("sources") or ():
        found.extend((part.get("downwardAPI") or {}).get("items") or ())
    return found


def pod_spec(spec: Object) -> None:
    """Defaults that hold for pods and for templates."""
    _fill(
        spec,
        restartPolicy="Always",
        dnsPolicy="ClusterFirst",
        schedulerName="default-scheduler",
        terminationGracePeriodSeconds=30,
        securityContext={},
    )
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for volume in spec.get("volumes") or ():
        _volume(volume)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _container(container, bool(spec.get("hostNetwork")))


def _pod(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    _fill(spec, enableServiceLinks=True)
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        resources = container["resources"]
        for name, quantity in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, quantity)


def _template(spec: Object) -> None:
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        template.setdefault("metadata", {})
        pod_spec(template["spec"])


# ---------------------------------------------------------------------- workloads


def _deployment(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    _fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600, strategy={})
    strategy = spec["strategy"]
    _fill(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _fill(strategy, rollingUpdate={})
        _fill(strategy["rollingUpdate"], maxSurge="25%", maxUnavailable="25%")


def _replica_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    _fill(spec, replicas=1)


def _stateful_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    _fill(
        spec,
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
        updateStrategy={},
        persistentVolumeClaimRetentionPolicy={},
    )
    _fill(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    _fill(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _fill(spec["updateStrategy"], rollingUpdate={})
        _fill(spec["updateStrategy"]["rollingUpdate"], partition=0)
    for claim in spec.get("volumeClaimTemplates") or ():
        _fill(claim, apiVersion="v1", kind="PersistentVolumeClaim", status={"phase": "Pending"})
        _fill(claim.setdefault("spec", {}), volumeMode="Filesystem")


def _daemon_set(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    generation = obj["metadata"].get("generation", 1)
    _fill(obj["metadata"], annotations={})
    _fill(obj["metadata"]["annotations"], **{"deprecated.daemonset.template.generation": str(generation)})
    _template(spec)
    _fill(spec, revisionHistoryLimit=10, updateStrategy={})
    _fill(spec["updateStrategy"], type="RollingUpdate")
    if spec["updateStrategy"]["type"] == "RollingUpdate":
        _fill(spec["updateStrategy"], rollingUpdate={})
        _fill(spec["updateStrategy"]["rollingUpdate"], maxSurge=0, maxUnavailable=1)


def _job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _template(spec)
    if not obj["metadata"].get("labels") and (labels := ((spec.get("template") or {}).get("metadata") or {}).get("labels")):
        obj["metadata"]["labels"] = dict(labels)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    _fill(spec, parallelism=1, suspend=False, completionMode="NonIndexed", manualSelector=False)
    _fill(spec, backoffLimit=2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6)
    _fill(spec, podReplacementPolicy="Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed")


def _cron_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    job = spec.setdefault("jobTemplate", {})
    _fill(job, metadata={}, spec={})
    _template(job["spec"])
    _fill(spec, concurrencyPolicy="Allow", suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)


# ---------------------------------------------------------------------- the rest


def _service(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, sessionAffinity="None", type="ClusterIP")
    for port in spec.get("ports") or ():
        _fill(port, protocol="TCP", targetPort=port.get("port"))
    if spec["type"] == "ExternalName":
        return
    _fill(spec, internalTrafficPolicy="Cluster")
    if spec["type"] in ("NodePort", "LoadBalancer"):
        _fill(spec, externalTrafficPolicy="Cluster")
    if spec["type"] == "LoadBalancer":
        _fill(spec, allocateLoadBalancerNodePorts=True)


def _claim(obj: Object) -> None:
    _fill(obj.setdefault("spec", {}), volumeMode="Filesystem")
    _fill(obj.setdefault("status", {}), phase="Pending")


def _event(obj: Object) -> None:
    """Fields that Go prints even when nobody has set them."""
    _fill(obj, source={}, firstTimestamp=None, lastTimestamp=None, eventTime=None, reportingComponent="", reportingInstance="")


def _volume_object(obj: Object) -> None:
    _fill(obj.setdefault("spec", {}), volumeMode="Filesystem", persistentVolumeReclaimPolicy="Retain")
    _fill(obj.setdefault("status", {}), phase="Pending")


def _storage_class(obj: Object) -> None:
    _fill(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _secret(obj: Object) -> None:
    _fill(obj, type="Opaque")
    for key, text in (obj.pop("stringData", None) or {}).items():
        obj.setdefault("data", {})[key] = base64.b64encode(text.encode()).decode()


def _namespace(obj: Object) -> None:
    obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = obj["metadata"].get("name", "")


def _binding(obj: Object) -> None:
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in ("User", "Group"):
            _fill(subject, apiGroup="rbac.authorization.k8s.io")
    _fill(obj.get("roleRef") or {}, apiGroup="rbac.authorization.k8s.io")


def _autoscaler(obj: Object) -> None:
    _fill(obj.setdefault("spec", {}), minReplicas=1)
    if not obj["spec"].get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        obj["spec"]["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]


def _network_policy(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    _fill(spec, podSelector={}, policyTypes=["Ingress", "Egress"] if spec.get("egress") else ["Ingress"])
    for rule in [*(spec.get("ingress") or ()), *(spec.get("egress") or ())]:
        for port in rule.get("ports") or ():
            _fill(port, protocol="TCP")


def _csi_driver(obj: Object) -> None:
    _fill(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        volumeLifecycleModes=["Persistent"],
        fsGroupPolicy="ReadWriteOnceWithFSType",
        storageCapacity=False,
        requiresRepublish=False,
        seLinuxMount=False,
    )


def _priority_class(obj: Object) -> None:
    _fill(obj, preemptionPolicy="PreemptLowerPriority")


def _webhooks(obj: Object) -> None:
    for hook in obj.get("webhooks") or ():
        _fill(hook, failurePolicy="Fail", matchPolicy="Equivalent", namespaceSelector={}, objectSelector={}, timeoutSeconds=10)
        if obj.get("kind") == "MutatingWebhookConfiguration":
            _fill(hook, reinvocationPolicy="Never")
        service = (hook.get("clientConfig") or {}).get("service")
        if service:
            _fill(service, port=443)
        for rule in hook.get("rules") or ():
            _fill(rule, scope="*")


def _policy(obj: Object) -> None:
    _fill(obj["spec"], failurePolicy="Fail")
    _matching(obj["spec"].get("matchConstraints"))


def _policy_binding(obj: Object) -> None:
    _matching(obj["spec"].get("matchResources"))


def _matching(rules: Object | None) -> None:
    if rules is None:
        return
    _fill(rules, matchPolicy="Equivalent", namespaceSelector={}, objectSelector={})
    for rule in [*(rules.get("resourceRules") or ()), *(rules.get("excludeResourceRules") or ())]:
        _fill(rule, scope="*")


def _endpoints(obj: Object) -> None:
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or ():
            _fill(port, protocol="TCP")


def _slices(obj: Object) -> None:
    for port in obj.get("ports") or ():
        _fill(port, protocol="TCP", name="")


def _disruption_budget(obj: Object) -> None:
    obj.setdefault("spec", {})


def _pod_template(obj: Object) -> None:
    _template(obj)


_BY_RESOURCE: Final[dict[str, Callable[[Object], None]]] = {
    "pods": _pod,
    "deployments.apps": _deployment,
    "replicasets.apps": _replica_set,
    "statefulsets.apps": _stateful_set,
    "daemonsets.apps": _daemon_set,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "services": _service,
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume_object,
    "storageclasses.storage.k8s.io": _storage_class,
    "secrets": _secret,
    "namespaces": _namespace,
    "rolebindings.rbac.authorization.k8s.io": _binding,
    "clusterrolebindings.rbac.authorization.k8s.io": _binding,
    "horizontalpodautoscalers.autoscaling": _autoscaler,
    "networkpolicies.networking.k8s.io": _network_policy,
    "csidrivers.storage.k8s.io": _csi_driver,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _policy,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _policy_binding,
    "endpoints": _endpoints,
    "endpointslices.discovery.k8s.io": _slices,
    "poddisruptionbudgets.policy": _disruption_budget,
    "podtemplates": _pod_template,
    "events": _event,
}


#: counts of a Deployment's status that Go does not print when they are 0 (the generation in any kind)
_UNPRINTED_ZEROS: Final = (
    "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas",
)  # fmt: skip


def fill_status(qualified: str, obj: Object) -> None:
    """Fields of a status that Go prints even when nobody has set them."""
    if qualified == "pods":
        for condition in (obj.get("status") or {}).get("conditions") or ():
            _fill(condition, lastProbeTime=None, lastTransitionTime=None)
    status = obj.get("status") or {}
    for name in _UNPRINTED_ZEROS:
        if status.get(name) == 0 and (qualified == "deployments.apps" or name == "observedGeneration"):
            del status[name]


def fill(qualified: str, obj: Object) -> None:
    """Fill in the defaults of a built-in object, in place. The object's types have been checked."""
    apply = _BY_RESOURCE.get(qualified)
    if apply is not None:
        apply(obj)
