"""Facts about instance types, from the emulated EC2; what EC2 does not list (p6e-gb200) from the fact sheet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

if TYPE_CHECKING:
    from instantstart_sandbox.world.state import World


@dataclass(frozen=True)
class TypeFacts:
    """``accelerated``: has GPUs or Neuron devices; ``cards``: network cards; ``efa``: most EFA interfaces."""

    accelerated: bool
    cards: int
    efa: int


_KNOWN: dict[str, TypeFacts] = {"ml.p6e-gb200.36xlarge": TypeFacts(True, 17, 17)}


def facts(world: World, region: str, instance_type: str) -> TypeFacts:
    """What is known of ``ml.*`` type; a type EC2 does not know counts as a plain one with one card."""
    if instance_type not in _KNOWN:
        _KNOWN[instance_type] = _ask(world, region, instance_type)
    return _KNOWN[instance_type]


def _ask(world: World, region: str, instance_type: str) -> TypeFacts:
    try:
        found = world.client("ec2", region).describe_instance_types(InstanceTypes=[instance_type.removeprefix("ml.")])["InstanceTypes"]
    except ClientError:
        found = []
    if not found:
        return TypeFacts(False, 1, 0)
    network: dict[str, Any] = found[0].get("NetworkInfo", {})
    accelerated = any(found[0].get(k) for k in ("GpuInfo", "NeuronInfo", "InferenceAcceleratorInfo"))
    return TypeFacts(accelerated, network.get("MaximumNetworkCards", 1), network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0))


def interfaces_needed(world: World, region: str, instance_type: str, interface_type: str | None) -> int:
    """How many addresses a node takes: with ``efa`` one per network card, with ``efa-only`` one (facts A6, A14)."""
    known = facts(world, region, instance_type)
    return 1 if interface_type == "efa-only" or not known.efa else max(1, known.cards)
