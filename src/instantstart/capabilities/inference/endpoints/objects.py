"""An endpoint as a Kubernetes object, and an object back as the settings it stands for. Pure; each is the inverse of the other.

Most fields are a line of a table: our name (also the place in a form, and the pointer of a violation) and the place in the custom
resource. What takes more is in ``parts``. Facts: aws-facts A13, the definitions of the inference operator 3.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import names, trees
from instantstart.base.trees import Tree
from instantstart.capabilities.inference.endpoints import parts, rules
from instantstart.ensure.inference.endpoints import CONFIG, JUMPSTART, VERSION
from instantstart.ensure.installs.releases import MANAGED_BY, MANAGER

_SHARED = (
    ("replicas", "replicas"),
    ("max_deploy_seconds", "maxDeployTimeInSeconds"),
    ("metrics.enabled", "metrics.enabled"),
    ("metrics.path", "metrics.modelMetrics.path"),
    ("metrics.port", "metrics.modelMetrics.port"),
    ("metrics.interval_seconds", "metrics.metricsScrapeIntervalSeconds"),
    ("cache.l1", "kvCacheSpec.enableL1Cache"),
    ("cache.redis_url", "kvCacheSpec.l2CacheSpec.l2CacheLocalUrl"),
    ("cache.config_file", "kvCacheSpec.cacheConfigFile"),
    ("routing.enabled", "intelligentRoutingSpec.enabled"),
    ("routing.strategy", "intelligentRoutingSpec.routingStrategy"),
    ("autoscaling.min_replicas", "autoScalingSpec.minReplicaCount"),
    ("autoscaling.max_replicas", "autoScalingSpec.maxReplicaCount"),
    ("autoscaling.polling_seconds", "autoScalingSpec.pollingInterval"),
    ("autoscaling.cooldown_seconds", "autoScalingSpec.cooldownPeriod"),
    ("autoscaling.scale_up_seconds", "autoScalingSpec.scaleUpStabilizationTime"),
    ("autoscaling.scale_down_seconds", "autoScalingSpec.scaleDownStabilizationTime"),
    ("load_balancer.health_path", "loadBalancer.healthCheckPath"),
    ("load_balancer.algorithm", "loadBalancer.routingAlgorithm"),
    ("tls.output_s3_uri", "tlsConfig.tlsCertificateOutputS3Uri"),
    ("tls.certificate_arn", "tlsConfig.customCertificateConfig.acmArn"),
    ("tls.domain_name", "tlsConfig.customCertificateConfig.domainName"),
    ("tls.hosted_zone_id", "dnsConfig.hostedZoneId"),
)
_CONFIG_ONLY = (
    ("model_name", "modelName"),
    ("sagemaker_endpoint", "endpointName"),
    ("invocation_path", "invocationEndpoint"),
    ("source.prefetch", "modelSourceConfig.prefetchEnabled"),
    ("server.image", "worker.image"),
    ("server.command", "worker.command"),
    ("server.args", "worker.args"),
    ("server.working_dir", "worker.workingDir"),
    ("server.port", "worker.modelInvocationPort.containerPort"),
    ("server.mount_path", "worker.modelVolumeMount.mountPath"),
    ("server.max_concurrent_requests", "worker.requestLimits.maxConcurrentRequests"),
    ("server.max_queue_size", "worker.requestLimits.maxQueueSize"),
    ("server.overflow_status", "worker.requestLimits.overflowStatusCode"),
)
_JUMPSTART_ONLY = (
    ("sagemaker_endpoint", "sageMakerEndpoint.name"),
    ("source.model_id", "model.modelId"),
    ("source.model_version", "model.modelVersion"),
    ("source.hub", "model.modelHubName"),
    ("source.accept_eula", "model.acceptEula"),
    ("source.gated_role_arn", "model.gatedModelDownloadRole"),
)
_TABLES = {CONFIG: (*_SHARED, *_CONFIG_ONLY), JUMPSTART: (*_SHARED, *_JUMPSTART_ONLY)}
#: the operator's own word for "of everybody": not shown as a setting
_PUBLIC_HUB = "SageMakerPublicHub"


def build(settings: Mapping[str, Any], kind: str) -> Tree:
    """The spec of the custom resource."""
    spec: Tree = {}
    for ours, theirs in _TABLES[kind]:
        value = trees.get(settings, ours)
        if value is not None:
            trees.put(spec, theirs, value)
    _build_cache(settings, spec)
    parts.build_triggers(settings, spec)
    if kind == JUMPSTART:
        _build_jumpstart(settings, spec)
    else:
        _build_config(settings, spec)
    return spec


def resource(target: Any) -> Tree:
    """The whole object of a CreateTarget: what is applied."""
    labels = {MANAGED_BY: MANAGER, "app.kubernetes.io/name": target.name}
    metadata = {"name": target.name, "namespace": target.namespace, "labels": labels, "annotations": {names.CLUSTER_TAG: target.tag}}
    spec = build(target.settings, target.kind)
    if target.kind == CONFIG and target.settings.get("sagemaker_endpoint"):
        spec["tags"] = [{"name": names.CLUSTER_TAG, "value": target.tag}]  # of the SageMaker endpoint: the cloud says whose it is
    return {"apiVersion": VERSION, "kind": target.kind, "metadata": metadata, "spec": spec}


def read(live: Mapping[str, Any]) -> Tree:
    """The settings of an object, whoever made it; what we have no name for is left out, and never touched."""
    spec, kind = live["spec"], live["kind"]
    settings: Tree = {}
    for ours, theirs in _TABLES[kind]:
        value = trees.get(spec, theirs)
        if value is not None and value != "":
            trees.put(settings, ours, value)
    if "autoscaling" in settings:
        settings.pop("replicas", None)  # the number is the autoscaler's
    _read_cache(spec, settings)
    parts.read_triggers(spec, settings)
    if kind == JUMPSTART:
        _read_jumpstart(spec, settings)
    else:
        _read_config(spec, settings)
    return settings


def _build_cache(settings: Mapping[str, Any], spec: Tree) -> None:
    second = trees.get(settings, "cache.l2")
    if second is not None:
        trees.put(spec, "kvCacheSpec.enableL2Cache", second != "none")
    if second not in (None, "none"):
        trees.put(spec, "kvCacheSpec.l2CacheSpec.l2CacheBackend", second)


def _read_cache(spec: Mapping[str, Any], settings: Tree) -> None:
    cache = spec.get("kvCacheSpec") or {}
    if "enableL2Cache" in cache:
        backend = str((cache.get("l2CacheSpec") or {}).get("l2CacheBackend", "redis")).lower()
        trees.put(settings, "cache.l2", backend if cache["enableL2Cache"] else "none")


def _build_jumpstart(settings: Mapping[str, Any], spec: Tree) -> None:
    types = settings.get("instance_types") or []
    if types:
        trees.put(spec, "server.instanceType", types[0])
    trees.put(spec, "model.acceptEula", bool(trees.get(settings, "source.accept_eula")))
    variables = parts.build_variables(settings)
    if variables:
        spec["environmentVariables"] = variables


def _read_jumpstart(spec: Mapping[str, Any], settings: Tree) -> None:
    trees.put(settings, "source.type", "jumpstart")
    one = trees.get(spec, "server.instanceType")
    if one:
        settings["instance_types"] = [one]
    parts.read_variables(spec.get("environmentVariables") or [], settings)
    if trees.get(settings, "source.hub") == _PUBLIC_HUB:
        trees.drop(settings, "source.hub")


def _build_config(settings: Mapping[str, Any], spec: Tree) -> None:
    server = settings.get("server") or {}
    types = settings.get("instance_types") or []
    if len(types) == 1:
        spec["instanceType"] = types[0]
    elif types:
        spec["instanceTypes"] = list(types)
    trees.put(spec, "worker.modelVolumeMount.name", parts.VOLUME)
    parts.build_source(settings.get("source") or {}, spec)
    parts.build_probes(server, spec)
    variables = parts.build_variables(settings)
    if variables:
        trees.put(spec, "worker.environmentVariables", variables)
    trees.put(spec, "worker.resources", parts.build_resources(server))
    if server.get("port") is not None and trees.get(settings, "metrics.port") is None:
        trees.put(spec, "metrics.modelMetrics.port", server["port"])


def _read_config(spec: Mapping[str, Any], settings: Tree) -> None:
    types = [spec["instanceType"]] if spec.get("instanceType") else spec.get("instanceTypes") or []
    if types:
        settings["instance_types"] = list(types)
    parts.read_source(spec, settings)
    parts.read_probes(spec, settings)
    parts.read_variables(trees.get(spec, "worker.environmentVariables") or [], settings)
    parts.read_resources(trees.get(spec, "worker.resources") or {}, settings)
    if trees.get(settings, "metrics.port") == trees.get(settings, "server.port"):
        trees.drop(settings, "metrics.port")


def foreign_to_jumpstart(settings: Mapping[str, Any]) -> list[str]:
    """Settings that a JumpStartModel has no place for, as ``server.image``."""
    known = {ours for ours, _ in _TABLES[JUMPSTART]}
    more = {"instance_types", "server.env", "source.type", "cache.l2", "routing.session_key", "autoscaling.triggers"}
    return [name for name in trees.flat(settings, rules.WHOLE) if name not in known | more]
