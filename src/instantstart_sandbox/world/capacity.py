"""How many instances of a type each availability zone has left."""

from __future__ import annotations

from typing import Any

from instantstart_sandbox.world.settings import Settings


class Capacity:
    """Counts per (instance type, zone name); a pair never set has ``settings.default_capacity``."""

    def __init__(self, state: dict[str, Any], settings: Settings) -> None:
        self._left: dict[str, int] = state
        self._settings = settings

    def left(self, instance_type: str, zone: str) -> int:
        """How many are to be had now."""
        return self._left.get(f"{instance_type}/{zone}", self._settings.default_capacity)

    def set(self, instance_type: str, zone: str, available: int) -> None:
        """Say how many are left (admin API, scenarios)."""
        self._left[f"{instance_type}/{zone}"] = available

    def take(self, instance_type: str, zone: str, n: int = 1) -> bool:
        """Take ``n``, all or nothing; False: insufficient capacity."""
        left = self.left(instance_type, zone)
        if left < n:
            return False
        self.set(instance_type, zone, left - n)
        return True

    def give_back(self, instance_type: str, zone: str, n: int = 1) -> None:
        """Return ``n`` instances."""
        self.set(instance_type, zone, self.left(instance_type, zone) + n)

    def dump(self) -> dict[str, int]:
        """Every pair that was ever set or touched, as ``type/zone``."""
        return dict(self._left)
