"""Kubernetes quantities (``500m``, ``2Gi``, ``1e3``) and the sum of what a pod asks for."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache

from .objects import Object, spec_of

_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"), "P": Decimal("1e15"), "E": Decimal("1e18"),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


@lru_cache(maxsize=4096)
def amount(quantity: str | int | float) -> Decimal:
    """The value of a quantity in its base unit (cores, bytes, pieces). Raises ValueError when it is not one."""
    text = str(quantity)
    digits = text.rstrip("numkKMGTPEi") if not _is_exponent(text) else text
    suffix = text[len(digits) :]
    if suffix not in _SUFFIXES or not digits:
        raise ValueError(f"not a quantity: {quantity!r}")
    try:
        return Decimal(digits) * _SUFFIXES[suffix]
    except ArithmeticError as error:
        raise ValueError(f"not a quantity: {quantity!r}") from error


def _is_exponent(text: str) -> bool:
    head, mark, tail = text.lower().partition("e")
    return bool(mark and head and tail.lstrip("+-").isdigit())


def _merge(total: dict[str, Decimal], more: dict[str, Decimal], largest: bool) -> None:
    for resource, value in more.items():
        before = total.get(resource, Decimal(0))
        total[resource] = max(before, value) if largest else before + value


def _of_container(container: Object) -> dict[str, Decimal]:
    resources = container.get("resources") or {}
    asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: amount(value) for name, value in asked.items()}


def requests_of(pod: Object) -> dict[str, Decimal]:
    """What the scheduler reserves for a pod: the sum of its containers, or the largest init container; plus one ``pods``."""
    spec = spec_of(pod)
    total: dict[str, Decimal] = {}
    for container in spec.get("containers") or []:
        _merge(total, _of_container(container), largest=False)
    first: dict[str, Decimal] = {}
    for container in spec.get("initContainers") or []:
        if container.get("restartPolicy") == "Always":
            _merge(total, _of_container(container), largest=False)
        else:
            _merge(first, _of_container(container), largest=True)
    _merge(total, first, largest=True)
    _merge(total, {k: amount(v) for k, v in (spec.get("overhead") or {}).items()}, largest=False)
    total["pods"] = Decimal(1)
    return total


def quality_of_service(pod: Object) -> str:
    """``Guaranteed``, ``Burstable`` or ``BestEffort``, by the rule of the pod's cpu and memory requests and limits."""
    containers = [*(spec_of(pod).get("containers") or []), *(spec_of(pod).get("initContainers") or [])]
    any_set, all_equal = False, True
    for container in containers:
        resources = container.get("resources") or {}
        limits, asked = resources.get("limits") or {}, resources.get("requests") or {}
        for resource in ("cpu", "memory"):
            any_set = any_set or resource in limits or resource in asked
            limit = limits.get(resource)
            if limit is None or amount(limit) != amount(asked.get(resource, limit)):
                all_equal = False
    if not any_set:
        return "BestEffort"
    return "Guaranteed" if all_equal else "Burstable"
