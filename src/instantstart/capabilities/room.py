"""The Room: everything a stage or a route may use, built once by the composition root."""

from __future__ import annotations

from dataclasses import dataclass, field

from instantstart.aws.session import AwsGateway
from instantstart.base.clock import Clock
from instantstart.base.settings import Settings
from instantstart.capabilities.board import Board
from instantstart.ensure.capacity.rosters import Rosters
from instantstart.ensure.clusters.remembered import Remembered
from instantstart.ensure.inference.meters import Meters
from instantstart.ensure.installs.bundles import Catalog
from instantstart.hub.client import Hub
from instantstart.kube.connect import KubeGateway
from instantstart.operations.engine import Engine
from instantstart.store import Store


@dataclass(frozen=True)
class Room:
    """Frozen and shared by every thread. There are no other globals."""

    settings: Settings
    clock: Clock
    store: Store
    aws: AwsGateway
    kube: KubeGateway
    bundles: Catalog
    engine: Engine
    hub: Hub
    board: Board = field(default_factory=Board)
    #: what AWS said of clusters a moment ago
    remembered: Remembered = field(default_factory=Remembered)
    #: what SageMaker listed of each cluster's nodes a moment ago
    rosters: Rosters = field(default_factory=Rosters)
    #: what model servers measured of themselves a moment ago
    meters: Meters = field(default_factory=Meters)
