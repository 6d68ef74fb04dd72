"""What must hold before a model is served: the server itself (ensure/inference/server_checks.py), its name, its address, who scales it."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from instantstart.base import problems
from instantstart.capabilities.inference.deployments import specs
from instantstart.capabilities.room import Room
from instantstart.ensure.findings import Finding, invalid
from instantstart.ensure.inference import autoscalers, server_checks, servers, serving
from instantstart.ensure.managed.components import BALANCER_ROLE
from instantstart.ensure.sites import Site

_EVERYONE = frozenset({"0.0.0.0/0", "::/0"})


@dataclass(frozen=True)
class Facts:
    """What was read. ``taken``: objects of somebody else that bear the names, in words; ``live``: our Deployment, when it is there."""

    server: server_checks.Facts
    live: dict[str, Any] | None
    taken: tuple[str, ...]
    balancer: bool
    autoscaler: str | None
    namespace: bool


def observe(room: Room, where: Site, ask: specs.CreateModelDeployment) -> Facts:
    """Read everything the checks need. Raises what passes."""
    kube = where.kube(room)
    read = server_checks.observe(room, where, ask)
    name = read.meant.name
    found = {k: kube.find(*k, ask.namespace) for k in (("Deployment", name), ("Service", name), ("Service", name + servers.EXTERNAL))}
    taken = tuple(f"{kind} {of}" for (kind, of), it in found.items() if it is not None and not _is_deployments(it))
    live = found["Deployment", name]
    wants = ask.exposure == "load_balancer"
    return Facts(
        read,
        live if live is not None and _is_deployments(live) else None,
        taken,
        not wants or has_balancer(kube),
        autoscalers.owner(kube, ask.namespace, "Deployment", name),
        kube.find("Namespace", ask.namespace) is not None,
    )


def _is_deployments(resource: dict[str, Any]) -> bool:
    marks = serving.marks(resource)
    return marks is not None and marks.part == "model-server"


def has_balancer(kube: Any) -> bool:
    """Whether some AWS load balancer controller runs: by image or name, whoever installed it."""
    for each in kube.list("Deployment"):
        containers = each["spec"]["template"]["spec"].get("containers") or ()
        by_image = any(part in str(c.get("image")) for c in containers for part in BALANCER_ROLE.images)
        if by_image or each["metadata"]["name"] in BALANCER_ROLE.names:
            return True
    return False


def findings(ask: specs.CreateModelDeployment, facts: Facts) -> list[Finding]:
    """Everything that was found, each ``fail`` at its field."""
    found = server_checks.findings(ask, facts.server)
    if not facts.namespace:
        found.append(Finding("namespace", "fail", f"There is no namespace {ask.namespace}.", "Make it, or choose one that is there."))
    for taken in facts.taken:
        text = f"{taken} of the namespace {ask.namespace} is there already, and is no model deployment's."
        found.append(Finding("name", "fail", text, "Choose another name."))
    return found + _address(ask, facts)


def _address(ask: specs.CreateModelDeployment, facts: Facts) -> list[Finding]:
    found = []
    networks = [_network(r) for r in ask.source_ranges]
    for at, (text, network) in enumerate(zip(ask.source_ranges, networks, strict=True)):
        if network is None:
            found.append(Finding(f"source_ranges/{at}", "fail", f"{text} is no range of addresses: write it as 203.0.113.0/24."))
    if ask.exposure == "internal":
        given = [f for f in ("source_ranges", "open_to_everyone") if getattr(ask, f)] + (["scheme"] if ask.scheme != "internal" else [])
        return found + [
            Finding(f, "fail", f"{f} is about a load balancer: ask for exposure load_balancer, or leave it out.") for f in given
        ]
    wide = _share_of_internet([n for n in networks if n is not None])
    if ask.scheme == "internet-facing" and not ask.source_ranges:
        text = "An internet-facing load balancer needs source_ranges: model servers ask nobody for a password."
        found.append(Finding("source_ranges", "fail", text, "Name the addresses that may reach it."))
    if ask.scheme == "internet-facing" and wide and not ask.open_to_everyone:
        text = "These ranges hold half of the internet or more." if wide != "all" else "These ranges hold the whole internet."
        found.append(Finding("open_to_everyone", "fail", text, "Narrow source_ranges, or say open_to_everyone too."))
    if wide and ask.scheme == "internet-facing":
        whom = "Everyone" if wide == "all" else "At least half"
        found.append(Finding("open_to_everyone", "warn", f"{whom} on the internet will be able to use the model.", "Set api_key_secret."))
    if not facts.balancer:
        text = "No AWS load balancer controller runs in the cluster: the address would never come."
        found.append(Finding("exposure", "fail", text, "Switch on the inference operator, which brings it, or install the controller."))
    return found


def _share_of_internet(networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> str | None:
    """``all``, ``half or more``, or None: by all ranges together, since 0.0.0.0/1 and 128.0.0.0/1 are everyone too."""
    found = None
    for version, bits in ((4, 32), (6, 128)):
        whole = ipaddress.collapse_addresses(n for n in networks if n.version == version)  # type: ignore[type-var]
        share = sum(n.num_addresses for n in whole)
        if share == 2**bits:
            return "all"
        found = "half or more" if share >= 2 ** (bits - 1) else found
    return found


def _network(text: str) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
    try:
        return ipaddress.ip_network(text)
    except ValueError:
        return None


def refusal(found: Sequence[Finding]) -> problems.Problem | None:
    """All violations at once, or None."""
    return invalid(found, "model_deployment.refused")


def scaled_by(name: str, owner: str) -> problems.Conflict:
    """Why nobody scales by hand what an autoscaler scales (case 65)."""
    return problems.Conflict(
        "model_deployment.autoscaled",
        f"{owner} owns the replicas of {name}: what is set by hand would be undone.",
        hint="Change the autoscaler's bounds, or delete it first.",
        evidence={"autoscaler": owner},
    )


def check_variables(ask: specs.UpdateModelDeployment) -> None:
    """Raise Invalid when variables are given whole and in parts, or one is both set and taken away."""
    fields = []
    for name in ("set_env", "unset_env"):
        if ask.env is not None and getattr(ask, name):
            fields.append(problems.Violation(f"/{name}", f"env is the whole of the variables: leave {name} out, or env."))
    both = sorted(set(ask.set_env or ()) & set(ask.unset_env or ()))
    fields += [problems.Violation(f"/unset_env/{(ask.unset_env or []).index(n)}", f"{n} is set and taken away at once.") for n in both]
    if fields:
        raise problems.Invalid("model_deployment.refused", " ".join(f.message for f in fields), fields=fields)
