"""What an instance group may not be, by itself and beside its cluster's settings (facts A1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.services import lookups
from instantstart_sandbox.services.arns import dns_suffix
from instantstart_sandbox.services.hyperpod.instances import facts
from instantstart_sandbox.services.hyperpod.state import invalid

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.registry import Context

Spec = dict[str, Any]
_LEAST_TIER_PERCENT = 20


def reserved_prefixes() -> tuple[str, ...]:
    """Label and taint key prefixes that belong to others [D]."""
    suffix = dns_suffix("aws")
    return ("kubernetes.io/", "k8s.io/", f"sagemaker.{suffix}/", f"eks.{suffix}/", "k8s.aws/", "karpenter.sh/")


def check_group(ctx: Context, spec: Spec, is_continuous: bool, restricted: bool) -> None:
    """Every rule about one group that needs no other; the first violation is a ValidationException."""
    name = spec["InstanceGroupName"]
    for rule in _RULES:
        problem = rule(spec)
        if problem:
            raise invalid(f"Instance group {name}: {problem}")
    if not is_continuous:
        _only_continuous(name, spec)
    _check_interface(ctx, name, spec)
    check_role(ctx, name, spec["ExecutionRole"])
    if not restricted:
        _check_lifecycle(ctx, name, spec.get("LifeCycleConfig"))


def _one_type_field(spec: Spec) -> str:
    given = [k for k in ("InstanceType", "InstanceRequirements") if spec.get(k)]
    return "" if len(given) == 1 else "exactly one of InstanceType and InstanceRequirements must be specified."


def _one_capacity(spec: Spec) -> str:
    given = spec.get("CapacityRequirements")
    if given is None:
        return ""
    kinds = [k for k in ("Spot", "OnDemand") if given.get(k) is not None]
    return "" if len(kinds) == 1 else "CapacityRequirements must specify exactly one of Spot and OnDemand."


def _spot_with_plan(spec: Spec) -> str:
    is_spot = (spec.get("CapacityRequirements") or {}).get("Spot") is not None
    return "TrainingPlanArn cannot be specified for Spot capacity." if is_spot and spec.get("TrainingPlanArn") else ""


def _minimum(spec: Spec) -> str:
    least = spec.get("MinInstanceCount")
    return "MinInstanceCount must not exceed InstanceCount." if least is not None and least > spec["InstanceCount"] else ""


def _checks_with_taints(spec: Spec) -> str:
    taints = (spec.get("KubernetesConfig") or {}).get("Taints")
    return "custom taints cannot be combined with OnStartDeepHealthChecks." if taints and spec.get("OnStartDeepHealthChecks") else ""


def _reserved_keys(spec: Spec) -> str:
    wanted = spec.get("KubernetesConfig") or {}
    keys = [*(wanted.get("Labels") or {}), *(t["Key"] for t in wanted.get("Taints") or [])]
    for key in keys:
        prefix = key.split("/")[0] + "/" if "/" in key else ""
        if any(prefix == p or prefix.endswith(f".{p}") for p in reserved_prefixes()):
            return f"the key {key} uses a reserved prefix."
    return ""


def _unique_types(spec: Spec) -> str:
    types = (spec.get("InstanceRequirements") or {}).get("InstanceTypes", [])
    return "InstanceTypes must be unique." if len(set(types)) != len(types) else ""


_RULES: tuple[Callable[[Spec], str], ...] = (
    _one_type_field,
    _one_capacity,
    _spot_with_plan,
    _minimum,
    _checks_with_taints,
    _reserved_keys,
    _unique_types,
)


def _only_continuous(name: str, spec: Spec) -> None:
    used = [k for k in ("MinInstanceCount", "InstanceRequirements") if spec.get(k) is not None]
    if (spec.get("CapacityRequirements") or {}).get("Spot") is not None:
        used.append("CapacityRequirements.Spot")
    if used:
        raise invalid(f"Instance group {name}: {used[0]} is only supported with NodeProvisioningMode Continuous.")


def _check_interface(ctx: Context, name: str, spec: Spec) -> None:
    """efa-only needs a type with more than one network card (facts A14; enforced by the product's own rule)."""
    if (spec.get("NetworkInterface") or {}).get("InterfaceType") != "efa-only":
        return
    for instance_type in (spec.get("InstanceRequirements") or {}).get("InstanceTypes") or [spec["InstanceType"]]:
        if facts(ctx.world, ctx.region, instance_type).cards <= 1:
            raise invalid(f"Instance group {name}: interface type efa-only is not supported for {instance_type}: it has one network card.")


def check_role(ctx: Context, name: str, role_arn: str) -> None:
    """The execution role must exist, be visible, and trust SageMaker; a fresh one is refused for some seconds."""
    if not lookups.role_trusts(ctx.world, role_arn, ctx.region, "sagemaker"):
        text = (
            f"Instance group {name}: SageMaker cannot assume the execution role {role_arn}. Make sure that the role exists and that "
            f"its trust policy lets sagemaker.{dns_suffix('aws')} assume it."
        )
        raise invalid(text)


def _check_lifecycle(ctx: Context, name: str, config: dict[str, Any] | None) -> None:
    """Enforced for every EKS group (field report: facts A1.3)."""
    if not config or not config.get("SourceS3Uri") or not config.get("OnCreate"):
        raise invalid(f"Instance group {name}: LifeCycleConfig with SourceS3Uri and OnCreate is required.")
    scheme, _, rest = config["SourceS3Uri"].partition("://")
    bucket, _, prefix = rest.partition("/")
    key = "/".join(part for part in (prefix.strip("/"), config["OnCreate"]) if part)
    if scheme != "s3" or not lookups.object_exists(ctx.world, ctx.region, bucket, key):
        raise invalid(f"Instance group {name}: the lifecycle script s3://{bucket}/{key} does not exist or cannot be read.")


def check_tiered(config: dict[str, Any] | None) -> None:
    """TieredStorageConfig: 20 to 100 percent when enabled [D]."""
    percent = (config or {}).get("InstanceMemoryAllocationPercentage")
    if config and config["Mode"] == "Enable" and percent is not None and percent < _LEAST_TIER_PERCENT:
        raise invalid(f"InstanceMemoryAllocationPercentage must be between {_LEAST_TIER_PERCENT} and 100.")
