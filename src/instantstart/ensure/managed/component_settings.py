"""What the add-ons of managed components are configured with: usual values, and what binds them to roles, bucket and workspace.

Facts: aws-facts A9, A13, C34 (the workspace's endpoint goes without its last slash).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from instantstart.base import problems
from instantstart.ensure.identity_chains import chains
from instantstart.ensure.identity_chains.chains import Ground
from instantstart.ensure.installs import configurations
from instantstart.ensure.managed.component_reads import World
from instantstart.ensure.managed.components import Component
from instantstart.ensure.sites import Site

Values = dict[str, Any]


def bound(world: World, component: Component) -> Values:
    """What an add-on that is there must still be configured with, by what it was given (a part that was switched off stays off)."""
    if component.name == "inference_operator" and isinstance(world.hyperpod, Mapping):
        have = world.configuration(component)
        own = {part: (have.get(part) or {}).get("enabled") is not False for part in ("alb", "keda")}
        return inference(world.where, str(world.hyperpod["ClusterArn"]), keda=own["keda"], balancer=own["alb"])
    return {}


def inference(where: Site, hyperpod_arn: str, *, keda: bool, balancer: bool) -> Values:
    """The inference operator's values. A part that is there already is left out: two controllers would fight (facts A13)."""
    told = where.names
    values: Values = {
        "executionRoleArn": _role(where, told.inference_role),
        "tlsCertificateS3Bucket": told.tls_bucket,
        "hyperpodClusterArn": hyperpod_arn,
        "jumpstartGatedModelDownloadRoleArn": _role(where, told.gated_model_role),
        "alb": {"enabled": False},
        "keda": {"enabled": False},
    }
    if balancer:
        values["alb"] = {"enabled": True, "serviceAccount": {"create": True, "roleArn": _role(where, told.load_balancer_role)}}
    if keda:
        values["keda"] = {"enabled": True, "auth": {"aws": {"irsa": {"enabled": True, "roleArn": _role(where, told.keda_role)}}}}
    return values


def observability(workspace: Mapping[str, str], grafana: Mapping[str, str] | None) -> Values:
    """The observability add-on's values. ``workspace`` has ``endpoint`` and ``arn``; ``grafana`` has ``name`` and ``arn``."""
    values: Values = {
        "ampWorkspace": {"prometheusEndpoint": workspace["endpoint"].rstrip("/"), "arn": workspace["arn"]},
        "logging": {"enabled": True},
    }
    if grafana:
        values["amgWorkspace"] = {"workspaceName": grafana["name"], "arn": grafana["arn"]}
    return values


def wanted(component: Component, bound_values: Values, asked: Mapping[str, Any] | None) -> Values:
    """Usual values, the person's on top; what binds the component to its roles is never overridden by accident."""
    return configurations.merged(configurations.merged(component.configuration, asked or {}), bound_values)


def check_bound(component: Component, asked: Mapping[str, Any], pointer: str) -> list[problems.Violation]:
    """The person's values that would cut an add-on off from what it is bound to."""
    kept = {"inference_operator": _INFERENCE_OWN, "observability": ("ampWorkspace", "amgWorkspace")}.get(component.name, ())
    return [problems.Violation(f"{pointer}/{key}", f"{key} is set by InstantStart and cannot be given.") for key in kept if key in asked]


_INFERENCE_OWN = ("executionRoleArn", "tlsCertificateS3Bucket", "hyperpodClusterArn", "jumpstartGatedModelDownloadRoleArn")


def _role(where: Site, name: str) -> str:
    return where.aws.arn("iam", f"role/{name}", regional=False)


def ground(world: World, choices: Mapping[str, str] | None = None) -> Ground:
    """What chains are declared on in this world."""
    return Ground(world.where, world.eks, choices or {})


def chain_names(component: Component, *, keda: bool, balancer: bool) -> tuple[str, ...]:
    """The chains that a component needs, without those of the parts that are there already."""
    left_out = {"inference_keda": not keda, "load_balancer": not balancer}
    return tuple(name for name in component.chains if not left_out.get(name) and name in chains.DECLARED)
