"""What the loops of Karpenter share: the definitions once served, the last word of AWS, offers that are out of stock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ...world.seams import AskedNode, Autoscaler, ScalableGroup
from ..aws_view import AwsView
from ..loops.engine import Controller, Engine
from ..loops.objects import Object, deleting, is_true, labels_of, name_of, spec_of, status_of, with_condition
from .definitions import CLAIMS, CLASSES, KINDS, POOLS, definitions
from .offers import POOL

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
#: an offer without capacity is left alone this long, as upstream does
OUT_OF_STOCK_SECONDS = 180.0


class Standing:
    """Shared by the loops; holds nothing that a restart may not lose."""

    def __init__(self, engine: Engine, view: AwsView) -> None:
        self._engine, self._view = engine, view
        self._out: dict[str, float] = {}
        self._asked_at: dict[str, int] = {}

    def asked_now(self, claim: str) -> None:
        """A node was asked for: the answer that may be on its way now does not tell of it yet, the one after it does."""
        self._asked_at[claim] = self._view.answers + 2

    def told_of(self, claim: str) -> bool:
        """Whether AWS' last answer would show the node of a claim."""
        return self._view.answers >= self._asked_at.get(claim, 0)

    @property
    def autoscaler(self) -> Autoscaler | None:
        """Managed Karpenter while it is in service and its kinds are served."""
        return self._view.autoscaler if all(self._engine.cache.holds(kind) for kind in KINDS) else None

    @property
    def groups(self) -> dict[str, ScalableGroup]:
        """The instance groups by name."""
        return {g.name: g for g in self.autoscaler.groups} if self.autoscaler else {}

    def node(self, logical: str | None) -> AskedNode | None:
        """A node that was asked for."""
        return next((n for n in self.autoscaler.nodes if n.logical_id == logical), None) if self.autoscaler and logical else None

    def claims(self, pool: str | None = None) -> list[Object]:
        """The claims, of one pool or of all, by name."""
        found = [c for c in self._engine.cache.all(CLAIMS) if pool is None or labels_of(c).get(POOL) == pool]
        return sorted(found, key=name_of)

    def ready_pools(self) -> list[Object]:
        """The pools that make nodes, the heaviest first."""
        found = [p for p in self._engine.cache.all(POOLS) if is_true(p, "Ready") and not deleting(p)]
        return sorted(found, key=lambda p: (-int(spec_of(p).get("weight") or 0), name_of(p)))

    def groups_for(self, pool: Object) -> list[ScalableGroup]:
        """The groups of a pool's class, in its order; none while the class is not ready."""
        name = spec_of(spec_of(pool)["template"])["nodeClassRef"]["name"]
        found = self._engine.cache.get(CLASSES, name)
        if found is None or not is_true(found, "Ready"):
            return []
        return [self.groups[g] for g in spec_of(found)["instanceGroups"] if g in self.groups]

    def out_of_stock(self, offer: str) -> None:
        """Leave an offer alone for a while."""
        self._out[offer] = self._engine.now() + OUT_OF_STOCK_SECONDS

    def in_stock(self, offer: str) -> bool:
        """Whether the offer may be tried."""
        return self._out.get(offer, 0.0) <= self._engine.now()


class KarpenterLoop(Controller):
    """A loop of Karpenter: it writes as ``karpenter``, hears of AWS, and follows custom kinds once they are served."""

    #: custom kinds it follows
    followed: tuple[str, ...] = ()

    def __init__(self, engine: Engine, view: AwsView, standing: Standing) -> None:
        super().__init__(engine)
        self.client = engine.cluster.client.named("karpenter")
        self.standing = standing
        view.listeners.append(self.look)

    def look(self) -> None:
        """AWS has news: everything is looked at."""
        for key in self.all_keys():
            self.engine.enqueue(self, key)

    def all_keys(self) -> Iterable[str]:
        """The keys of everything there is."""
        if not self.followed or not self.cache.holds(self.followed[0]):
            return []
        return [name_of(o) for o in self.cache.all(self.followed[0])]

    async def event(self, obj: Object, reason: str, message: str, warning: bool = False) -> None:
        """An event by ``karpenter``."""
        await self.client.event(obj, reason, message, type="Warning" if warning else "Normal", component="karpenter")

    async def tell(self, resource: str, obj: Object, conditions: list[Object], **more: Any) -> Object:
        """Write conditions (each with type, status, reason, message) and more of the status, when something differs."""
        wanted = status_of(obj).get("conditions")
        for condition in conditions:
            fields = {"reason": condition["type"], "message": "", "observedGeneration": obj["metadata"].get("generation", 1), **condition}
            wanted = with_condition(wanted, fields, self.now())
        fields = {"conditions": wanted or [], **more}
        if all(status_of(obj).get(k) == v for k, v in fields.items()):
            return obj
        return await self.client.status(resource, name_of(obj), fields)


class Installer(Controller):
    """Serves the three kinds when Karpenter comes into service, and lets the loops follow them. They stay when it is switched off."""

    name = "karpenter-installer"

    def __init__(self, engine: Engine, view: AwsView, loops: list[KarpenterLoop]) -> None:
        super().__init__(engine)
        self.client = engine.cluster.client.named("karpenter")
        self._view, self._loops = view, loops
        view.listeners.append(lambda: engine.enqueue(self, "kinds"))

    def begin(self) -> None:
        """Take up what an earlier process served."""
        self.engine.enqueue(self, "kinds")

    async def reconcile(self, key: str) -> None:
        """Serve what is missing."""
        if self._view.autoscaler is not None:
            for definition in definitions():
                if self.cluster.read(_DEFINITIONS, name_of(definition)) is None:
                    await self.client.apply(_DEFINITIONS, definition)
        if all(kind in self.cluster.catalog for kind in KINDS):
            for loop in self._loops:
                for kind in loop.followed:
                    self.engine.follow(loop, kind)
