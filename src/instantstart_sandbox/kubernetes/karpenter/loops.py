"""Karpenter's loops, put together."""

from __future__ import annotations

from ..aws_view import AwsView
from ..loops.engine import Controller, Engine
from .claims import ClaimLoop, Garbage
from .disruption import DisruptionLoop
from .node_classes import NodeClassLoop
from .node_pools import NodePoolLoop
from .provisioning import Provisioner
from .standing import Installer, KarpenterLoop, Standing

_LOOPS: tuple[type[KarpenterLoop], ...] = (NodeClassLoop, NodePoolLoop, Provisioner, ClaimLoop, DisruptionLoop, Garbage)


def loops(engine: Engine, view: AwsView) -> list[Controller]:
    """Everything that the engine is to run; idle until AutoScaling is in service."""
    standing = Standing(engine, view)
    made = [kind(engine, view, standing) for kind in _LOOPS]
    return [*made, Installer(engine, view, made)]
