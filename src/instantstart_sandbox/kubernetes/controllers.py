"""Everything that runs beside the API server of one cluster: controllers, scheduler, kubelets, nodes, add-ons.

Controllers of operators (training jobs, Ray, inference) stand in ``_OPERATORS``: classes like the others, that act only while the
operator's own pod runs (operating.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .addons import AddonController
from .autoscaling.hpa import Autoscaler
from .autoscaling.scaled_objects import ScaledObjects
from .autoscaling.scraper import Scraper
from .aws_view import AwsView
from .bridge import NodeBridge
from .inference.controller import ConfigLoop, JumpStartLoop
from .karpenter import loops as karpenter
from .kubelet.agent import Kubelet
from .loops.daemonset import DaemonSetController
from .loops.deployment import DeploymentController
from .loops.disruption import BudgetController, TaintEviction
from .loops.engine import Controller, Engine
from .loops.gc import GarbageCollector, NamespaceController, PodCollector
from .loops.job import JobController
from .loops.objects import stamp
from .loops.replicaset import ReplicaSetController
from .loops.scheduler import Scheduler
from .loops.service import EndpointsController, LoadBalancerController
from .loops.statefulset import StatefulSetController
from .loops.volumes import VolumeBinder, VolumeProtection
from .queues import Queues
from .ray.clusters import RayClusters
from .ray.jobs import RayJobs
from .training.jobs import TrainingJobs

if TYPE_CHECKING:
    from .cluster import Cluster

_STANDING: tuple[type[Controller], ...] = (
    GarbageCollector,
    NamespaceController,
    PodCollector,
    DeploymentController,
    ReplicaSetController,
    DaemonSetController,
    StatefulSetController,
    JobController,
    Scheduler,
    Kubelet,
    VolumeBinder,
    VolumeProtection,
    EndpointsController,
    LoadBalancerController,
    BudgetController,
    TaintEviction,
    Scraper,
    Autoscaler,
    ScaledObjects,
)
_OPERATORS: tuple[type[Controller], ...] = (Queues, TrainingJobs, RayClusters, RayJobs)


def assemble(cluster: Cluster) -> tuple[Engine, AwsView]:
    """Everything wired up, nothing running yet."""
    engine = Engine(cluster)
    # What controllers write in the course of a warp bears the moment it belongs to, not the end of the warp.
    cluster.pipeline.timestamp = lambda: stamp(engine.now())
    for kind in (*_STANDING, *_OPERATORS):
        engine.add(kind(engine))
    view = AwsView(cluster)
    engine.add(NodeBridge(engine, view))
    engine.add(AddonController(engine, view))
    for loop in (*karpenter.loops(engine, view), ConfigLoop(engine, view), JumpStartLoop(engine, view)):
        engine.add(loop)
    return engine, view


def start_controllers(cluster: Cluster) -> None:
    """Start everything in the cluster's loop; it stops with the cluster."""
    engine, view = assemble(cluster)
    cluster.start(engine.run(), name="controllers")
    cluster.start(view.run(), name="aws view")
