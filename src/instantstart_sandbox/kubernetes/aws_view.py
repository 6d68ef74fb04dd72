"""What AWS says of one cluster: its instances, add-ons and autoscaler, read on a nudge and now and then, outside of the worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..world.seams import Addon, Autoscaler, IdentityWorld, Instance, ScalingWorld
from .nodes import node_name

if TYPE_CHECKING:
    from .cluster import Cluster

log = logging.getLogger(__name__)
#: Without a nudge AWS is asked again after so many virtual seconds, but not more often than each so many real ones.
_PERIOD_SECONDS, _SHORTEST_REAL_SECONDS = 60.0, 5.0


class AwsView:
    """The last answer, and who wants to hear of a new one."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._nudged = asyncio.Event()
        #: by node name; None until AWS has answered once: unknown is not empty
        self.instances: dict[str, Instance] | None = None
        self.addons: dict[str, Addon] | None = None
        #: managed Karpenter; None while it is not in service
        self.autoscaler: Autoscaler | None = None
        #: how often AWS has answered: what was asked before an answer began is in it
        self.answers = 0
        #: (namespace, service account) -> the moment from which its pod identity association is in force
        self.associations: dict[tuple[str, str], float] = {}
        self.listeners: list[Callable[[], None]] = []
        cluster.pipeline.associated = self.is_associated
        cluster.on_nudge(self._nudged.set)

    async def run(self) -> None:
        """Ask for ever."""
        while True:
            self._nudged.clear()
            await self.ask()
            timeout = max(_PERIOD_SECONDS / self._cluster.clock.rate, _SHORTEST_REAL_SECONDS)
            try:
                async with asyncio.timeout(timeout):
                    await self._nudged.wait()
            except TimeoutError:
                continue

    def is_associated(self, namespace: str, account: str) -> bool:
        """Whether a pod that is made now gets a role by the pod identity agent."""
        since = self.associations.get((namespace, account))
        return since is not None and since <= self._cluster.clock.now()

    async def ask(self) -> None:
        """Read both lists, and tell the listeners when something differs."""
        cluster = self._cluster
        try:
            instances = await cluster.ask_aws(cluster.aws.instances, cluster.arn)
            addons = await cluster.ask_aws(cluster.aws.addons, cluster.arn)
            autoscaler = await cluster.ask_aws(cluster.aws.autoscaler, cluster.arn) if isinstance(cluster.aws, ScalingWorld) else None
            if isinstance(cluster.aws, IdentityWorld):
                self.associations = await cluster.ask_aws(cluster.aws.associations, cluster.arn)
        except Exception:
            log.exception("AWS could not be asked about %s", cluster.arn)
            return
        self.answers += 1
        fresh = {node_name(i.instance_id): i for i in instances}
        named = {a.name: a for a in addons}
        if (fresh, named, autoscaler) != (self.instances, self.addons, self.autoscaler):
            self.instances, self.addons, self.autoscaler = fresh, named, autoscaler
            for listener in self.listeners:
                listener()
