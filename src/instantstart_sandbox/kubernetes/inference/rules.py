"""What the operator refuses although the schema takes it. Each refusal is a sentence that ends up in the endpoint's status."""

from __future__ import annotations

from typing import Any

from ..loops.objects import Object

_GATED = ("meta-", "huggingface-vlm-meta", "huggingface-llm-gemma")


def config_faults(spec: Object, tiered: bool) -> list[str]:
    """Faults of an InferenceEndpointConfig; ``tiered``: the HyperPod cluster has tiered storage."""
    return [*_instances(spec), *_source(spec), *_cache(spec, tiered), *_routing(spec), *_tls(spec), *_scaling(spec)]


def jumpstart_faults(spec: Object, tiered: bool) -> list[str]:
    """Faults of a JumpStartModel."""
    model = spec["model"]
    eula = [f"model {model['modelId']} requires accepting its end user license agreement: set spec.model.acceptEula to true"]
    found = eula if model["modelId"].startswith(_GATED) and not model.get("acceptEula") else []
    return [*found, *_cache(spec, tiered), *_routing(spec), *_tls(spec), *_scaling(spec)]


def _instances(spec: Object) -> list[str]:
    given = [name for name in ("instanceType", "instanceTypes", "nodeAffinity") if spec.get(name)]
    if len(given) == 1:
        return []
    return [f"exactly one of instanceType, instanceTypes, nodeAffinity must be given, got {', '.join(given) or 'none'}"]


def _source(spec: Object) -> list[str]:
    source = spec["modelSourceConfig"]
    kind = source["modelSourceType"]
    needed = {"s3": "s3Storage", "fsx": "fsxStorage", "huggingface": "huggingFaceModel"}.get(kind)
    if needed and not source.get(needed):
        return [f"modelSourceConfig.{needed} is required when modelSourceType is {kind}"]
    mounts = [v["name"] for v in (spec.get("kubernetes") or {}).get("volumes") or []]
    if kind == "kubernetesVolume" and spec["worker"]["modelVolumeMount"]["name"] not in mounts:
        return ["modelVolumeMount.name must be one of kubernetes.volumes when modelSourceType is kubernetesVolume"]
    return []


def _cache(spec: Object, tiered: bool) -> list[str]:
    cache = spec.get("kvCacheSpec")
    if not cache or not cache.get("enableL2Cache"):
        return []
    backend, found = str((cache.get("l2CacheSpec") or {}).get("l2CacheBackend") or "").lower(), []
    url = (cache.get("l2CacheSpec") or {}).get("l2CacheLocalUrl")
    if not cache.get("enableL1Cache", True):
        found.append("kvCacheSpec.enableL2Cache needs enableL1Cache")
    if not backend:
        found.append("kvCacheSpec.l2CacheSpec.l2CacheBackend is required when enableL2Cache is true")
    if backend == "redis" and not url:
        found.append("kvCacheSpec.l2CacheSpec.l2CacheLocalUrl is required for the redis backend")
    if backend == "tieredstorage" and url:
        found.append("kvCacheSpec.l2CacheSpec.l2CacheLocalUrl must not be given for the tieredstorage backend")
    if backend == "tieredstorage" and not tiered:
        found.append("the tieredstorage backend needs TieredStorageConfig Mode Enable on the HyperPod cluster")
    return found


def _routing(spec: Object) -> list[str]:
    routing: Any = spec.get("intelligentRoutingSpec") or {}
    if not routing.get("enabled"):
        return []
    strategy, cache = routing.get("routingStrategy", "prefixaware"), spec.get("kvCacheSpec")
    variables = [*((spec.get("worker") or {}).get("environmentVariables") or []), *(spec.get("environmentVariables") or [])]
    found = []
    if strategy == "kvaware" and (not cache or not cache.get("enableL1Cache", True)):
        found.append("routingStrategy kvaware needs kvCacheSpec with enableL1Cache")
    if strategy == "kvaware" and not str(spec.get("invocationEndpoint", "")).startswith("v1/"):
        found.append("routingStrategy kvaware needs an invocationEndpoint of v1/completions or v1/chat/completions")
    if strategy == "session" and not any(v["name"] == "SESSION_KEY" for v in variables):
        found.append("routingStrategy session needs the environment variable SESSION_KEY")
    return found


def _tls(spec: Object) -> list[str]:
    if spec.get("dnsConfig") and not (spec.get("tlsConfig") or {}).get("customCertificateConfig"):
        return ["dnsConfig needs tlsConfig.customCertificateConfig"]
    return []


def _scaling(spec: Object) -> list[str]:
    scaling = spec.get("autoScalingSpec")
    if not scaling:
        return []
    found = []
    if scaling["minReplicaCount"] > scaling["maxReplicaCount"]:
        found.append("autoScalingSpec.minReplicaCount must not be greater than maxReplicaCount")
    if not any(scaling.get(n) for n in ("cloudWatchTrigger", "cloudWatchTriggerList", "prometheusTrigger", "prometheusTriggerList")):
        found.append("autoScalingSpec needs at least one trigger")
    return found
