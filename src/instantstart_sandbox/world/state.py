"""The world: everything the sandbox's services share, in one object that is saved and restored."""

from __future__ import annotations

import json
import secrets
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instantstart_sandbox.gateway.registry import Registry
from instantstart_sandbox.world.capacity import Capacity
from instantstart_sandbox.world.clock import Clock
from instantstart_sandbox.world.faults import Faults
from instantstart_sandbox.world.journal import Journal
from instantstart_sandbox.world.null_kubernetes import NullKubernetes
from instantstart_sandbox.world.quotas import Quotas
from instantstart_sandbox.world.seams import KubernetesWorld
from instantstart_sandbox.world.settings import Settings

if TYPE_CHECKING:
    from instantstart_sandbox.gateway.app import Gateway
    from instantstart_sandbox.world.snapshot import Snapshot

ACCOUNT = "123456789012"
DEFAULT_REGION = "us-west-2"


class World:
    """One AWS account in all regions of a partition, and the Kubernetes clusters in it.

    ``state`` holds each owned service's data: nested dicts, lists, strings, numbers, booleans, None and datetimes,
    nothing else, so that it can be saved at any moment. Take sub-dicts with ``world.section("eks")``.
    """

    def __init__(
        self, data_dir: Path | None = None, *, clock: Clock | None = None, settings: Settings | None = None, region: str = DEFAULT_REGION
    ) -> None:
        self.data_dir = data_dir
        self.account, self.region = ACCOUNT, region
        self.clock = clock or Clock()
        self.settings = settings or Settings()
        self.registry = Registry()
        self.state: dict[str, Any] = {}
        self.capacity = Capacity(self.section("capacity"), self.settings)
        self.quotas = Quotas(self.section("quotas"))
        self.faults = Faults(self.settings, self.clock.now)
        self.journal = Journal()
        self.kubernetes: KubernetesWorld = NullKubernetes()
        self._gateway: Gateway | None = None
        self._clients: dict[tuple[str, str, str | None], Any] = {}
        self._snapshot: Snapshot | None = None
        #: something is not saved yet; something of moto's is not saved yet
        self.dirty = self.moto_dirty = False

    @property
    def gateway(self) -> Gateway:
        """The WSGI application; made on first use."""
        if self._gateway is None:
            from instantstart_sandbox.gateway.app import Gateway

            self._gateway = Gateway(self)
        return self._gateway

    def section(self, name: str) -> dict[str, Any]:
        """The dict in which a service keeps its state; the same object for the world's whole life."""
        found: dict[str, Any] = self.state.setdefault(name, {})
        return found

    def changed(self) -> None:
        """Say that state changed outside a request (a timer, a Kubernetes event), so that it is saved soon."""
        self.dirty = self.moto_dirty = True

    def persist(self) -> bool:
        """Take over what ``data_dir`` holds and save there from now on; True when there was something."""
        from instantstart_sandbox.world.snapshot import Snapshot

        if self.data_dir is None:
            raise ValueError("a world without a data folder cannot be saved")
        self.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._snapshot = Snapshot(self, self.data_dir / "state.snapshot")
        restored = self._snapshot.restore()
        self.gateway.after_change = self._snapshot.after_change
        return restored

    def save(self) -> None:
        """Write the state now (a world without a data folder has nowhere to write to, and does nothing)."""
        if self._snapshot is not None:
            self._snapshot.save()

    def drain(self) -> None:
        """Run every due timer. One that fails is in the ledger of crashes and keeps none of the others from running."""
        self._run_timers(self.clock.drain)

    def warp(self, seconds: float) -> None:
        """Let virtual time pass at once, with every timer that falls due."""
        self._run_timers(lambda: self.clock.warp(seconds))
        self.changed()

    def _run_timers(self, run: Callable[[], None]) -> None:
        with self.clock.lock:
            while True:
                try:
                    return run()
                except Exception as crash:  # noqa: BLE001 - a boundary: whoever asked next is not to blame
                    self.journal.crashed("clock", "timer", repr(crash), "".join(traceback.format_exception(crash)))
                run = self.clock.drain

    def tick(self) -> None:
        """Let due timers run and save what waits to be saved; called ten times a second."""
        fired = self.clock.fired
        self.drain()
        if self.clock.fired != fired:
            self.changed()
        if self._snapshot is not None:
            self._snapshot.tick()

    def client(self, service: str, region: str | None = None, principal_arn: str | None = None) -> Any:
        """A boto3 client whose calls go straight into the gateway: no socket, no faults, no IAM check.

        ``principal_arn`` is on whose behalf the call is made (CloudFormation acts for the caller); default: root.
        """
        from instantstart_sandbox.gateway.inprocess import client

        key = (service, region or self.region, principal_arn)
        with self.clock.lock:
            if key not in self._clients:
                self._clients[key] = client(self.gateway, *key)
            return self._clients[key]

    def partition(self, region: str) -> str:
        """``aws``, ``aws-cn`` or ``aws-us-gov``, as botocore says of the region."""
        return self.gateway.partition_of(region)

    def iam_visible(self, role_arn: str) -> bool:
        """Whether a role exists and other services can see it (and its trust) by now."""
        return self.gateway.iam.visible(role_arn)

    def verify_presigned(self, url: str, cluster_name: str) -> str | None:
        """The principal's ARN of a presigned GetCallerIdentity URL made for this EKS cluster; None: refuse it."""
        return self.gateway.iam.verify_presigned(url, cluster_name)

    def reset(self) -> None:
        """An empty account again: owned state, moto's state, faults and ledgers; settings and the clock stay."""
        with self.clock.lock:
            for cluster in list(self.section("eks").get("clusters", {})):
                self.kubernetes.delete_cluster(cluster)
            for name, section in self.state.items():
                if name != "account":  # the admin's keys stay
                    section.clear()
            self.faults.clear()
            self.journal.clear()
            self.clock.forget_timers()
            self.gateway.reset()
            self.changed()

    def credentials(self) -> dict[str, str]:
        """The admin user's access key, made at first start and kept in ``credentials.json`` (mode 0600)."""
        path = self.data_dir / "credentials.json" if self.data_dir else None
        if path and path.exists():
            saved: dict[str, str] = json.loads(path.read_text())
            return saved
        keys = self.section("account")
        if not keys:
            keys["access_key_id"] = "AKIA" + "".join(secrets.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") for _ in range(16))
            keys["secret_access_key"] = secrets.token_urlsafe(30)
        return {**keys, "account": self.account, "region": self.region}
