"""One scenario for every workflow of the product: what must stand before it, what is asked, what a person did outside before.

A new slice adds one line for each workflow; everything in this room then covers it (docs/weather.md). ``asks`` gives the fields
that neither the place (tag, region, zone, instance_type) nor the model (defaults, examples, enums, bounds) says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from tests.weather import derive, outside, serving, sharing, training

from instantstart.capabilities.workflows import WORKFLOWS
from instantstart.operations.declare import Workflow

if TYPE_CHECKING:
    from tests.weather.ground import Ground

Asks = Mapping[str, Any] | Callable[["Ground"], Mapping[str, Any]]
#: virtual seconds in a real one, where the real control plane is met
_RATE, _RATE_OF_PROCESSES = 60.0, 15.0
#: a whole cluster: what most workflows need before them
WHOLE = ("cluster.create",)


@dataclass(frozen=True)
class Scenario:
    """How one workflow is met. ``after``: workflows that have succeeded before, in order."""

    workflow: str
    after: tuple[str, ...] = WHOLE
    asks: Asks = field(default_factory=dict)
    #: what happens outside the product before it is asked (capacity that comes, a plan that is bought, a node that breaks)
    before: Callable[[Ground], None] | None = None
    #: operationId of its route, when that is not its name
    door: str = ""
    #: parameters of that route's path which the spec calls otherwise: their values
    path: Mapping[str, str] = field(default_factory=dict)
    #: parts of the world's lines that two right runs may differ in (regular expressions, left out)
    differs: tuple[str, ...] = ()
    #: the body of its route, when that is no part of the spec
    body: Asks | None = None
    #: codes of Problems after which a person asks anew (a purchase is sent once, whatever the weather)
    anew: frozenset[str] = frozenset()
    #: workflows of one course are met one after another, each in the world that those before it left; its own name: by itself
    course: str = "journey"
    #: pods that it waits for are processes of this machine, whose seconds are the wall's
    processes: bool = False
    #: what goes on beside it, and is asked for first
    beside: Scenario | None = None
    #: lines that its world has beside what every world tells
    sees: Callable[[Ground], list[str]] | None = None
    #: what people outside take away before the account must be empty
    tidy: Callable[[Ground], None] | None = None
    #: why it cannot be met on this machine; empty: it can
    lacks: Callable[[], str] = str

    @property
    def declared(self) -> Workflow:
        """The declaration."""
        return BY_NAME[self.workflow]

    @property
    def rate(self) -> float:
        """Virtual seconds in a real one."""
        return _RATE_OF_PROCESSES if self.processes else _RATE

    @property
    def operation_id(self) -> str:
        """Its route's operationId: the workflow's name, unless ``door`` says otherwise."""
        return self.door or self.workflow.replace(".", "_")

    def spec(self, ground: Ground) -> BaseModel:
        """What is asked, on this ground."""
        return derive.minimal(self.declared.spec, self.known(ground))

    def known(self, ground: Ground) -> dict[str, Any]:
        """What the scenario asks, and of the place what the model wants to be told."""
        place = {name: value for name, value in ground.place().items() if _is_wanted(self.declared.spec, name)}
        return {**place, **(self.asks(ground) if callable(self.asks) else self.asks)}


def _is_wanted(model: type[BaseModel], name: str) -> bool:
    return name in model.model_fields and model.model_fields[name].is_required()


BY_NAME: dict[str, Workflow] = {workflow.name: workflow for workflow in WORKFLOWS}

#: the group that the scenarios of capacity work on, and the claim of those of storage
GROUP, CLAIM, POOL, FSX_CLAIM, MLFLOW = "extra", "second", "pool", "third", "weather"
_FSX = (*WHOLE, "feature.enable")
_TRACKED = (*WHOLE, "mlflow_app.create")
_GROUPED = (*WHOLE, "instance_group.add")
_KARPENTER = (*WHOLE, "karpenter.enable")
_POOLED = (*_KARPENTER, "instance_group.add", "node_pool.add")
_BOUGHT_UNKNOWN = frozenset({"training_plan.not_taken", "training_plan.purchase_unknown"})


def _nodes(**more: Any) -> Asks:
    return lambda ground: {"nodes": outside.instances(ground, GROUP)[:1], **more}


_SLOWLY = Scenario("model.download", asks=training.LARGE_MODEL, before=training.slow_hub, processes=True)

#: workflows that are covered elsewhere, and why
ELSEWHERE: dict[str, str] = {}

#: what stands before some courses: workflows under names of their own
PREPARATIONS: dict[str, Scenario] = {
    "three_workers": Scenario("instance_group.scale", asks={"group": "workers", "instance_count": 3}),
    "training_operator": Scenario("feature.enable", asks={"feature": "training_operator", "ask": {"enabled": True}}),
    "inference_operator": Scenario("feature.enable", asks={"feature": "inference_operator", "ask": {"enabled": True}}),
}
_TRAINS = (*WHOLE, "training_operator")
_SERVES = (*WHOLE, "three_workers", "inference_operator")
_DEPLOYED = (*_SERVES, "model_deployment.create")
_POOL_MADE = (*_SERVES, "model_pool.create")
_BOUND = (*_POOL_MADE, "model_binding.create")
_ENDPOINT = (*_SERVES, "inference_endpoint.create")


_SHARED: dict[str, Any] = {
    "before": sharing.serve_two,
    "sees": sharing.copies,
    "tidy": sharing.take_down,
    "lacks": sharing.lacks,
    "processes": True,
}


def _served(workflow: str, after: tuple[str, ...], asks: Asks, **more: Any) -> Scenario:
    return Scenario(workflow, after, asks, course="serving", processes=True, **more)


def _managed(workflow: str, after: tuple[str, ...], wish: serving.Wish, **more: Any) -> Scenario:
    return Scenario(workflow, after, wish.asks, course="endpoints", processes=True, body=wish.body, **more)


#: in the order of the journey: each stands on what those before it have made
SCENARIOS: tuple[Scenario, ...] = (
    Scenario("eks.create", after=()),
    Scenario("cluster.connect", after=("eks.create",), door="cluster_select"),
    Scenario("dependencies.configure", after=("eks.create", "cluster.connect"), asks={"cert_manager": True}),
    Scenario("hyperpod.create", after=("eks.create", "cluster.connect", "dependencies.configure")),
    Scenario("storage.configure", after=("eks.create", "cluster.connect", "dependencies.configure", "hyperpod.create")),
    Scenario("cluster.verify"),
    Scenario("s3_volume.add", asks={"claim_name": CLAIM, "prefix": "second/"}),
    Scenario("volume.remove", after=(*WHOLE, "s3_volume.add"), asks={"claim_name": CLAIM, "namespace": "default"}, path={"claim": CLAIM}),
    Scenario("feature.enable", asks={"feature": "fsx_csi"}, door="feature_update", body={"fsx_csi": {"enabled": True}}),
    Scenario("fsx_volume.add", after=_FSX, asks={"claim_name": FSX_CLAIM, "size_gib": 1200}),
    Scenario("feature.upgrade", after=_FSX, asks=outside.another_version),
    Scenario("feature.repair", after=_FSX, before=outside.break_a_role, asks={"features": ["fsx_csi"]}),
    Scenario("instance_group.add", asks=lambda ground: {"name": GROUP, "zone": ground.place()["zone"]}),
    Scenario("instance_group.update", after=_GROUPED, asks={"group": GROUP, "labels": {"team": "weather"}}),
    Scenario("instance_group.scale", after=_GROUPED, asks={"group": GROUP, "instance_count": 2}),
    Scenario("node.reboot", after=_GROUPED, asks=_nodes()),
    Scenario("node.replace", after=_GROUPED, asks=_nodes()),
    Scenario("node.check", after=_GROUPED, asks=_nodes(checks=("InstanceStress",))),
    Scenario("software.update", asks={"instance_groups": ("workers",), "release_version": "1.1.0"}),
    Scenario("node.move", after=_GROUPED, asks=_nodes(target_group="workers")),
    Scenario("node.delete", after=_GROUPED, asks=_nodes()),
    Scenario("karpenter.enable"),
    Scenario("node_pool.add", after=(*_KARPENTER, "instance_group.add"), asks=outside.pool(POOL, GROUP)),
    Scenario("node_pool.update", after=_POOLED, asks={"pool": POOL, "labels": {"team": "weather"}}),
    Scenario("node_pool.delete", after=_POOLED, asks={"pool": POOL}),
    Scenario("karpenter.disable", after=_KARPENTER),
    Scenario("instance_group.delete", after=_GROUPED, asks={"group": GROUP}),
    Scenario("mlflow_server.create", asks=outside.tracking("tracking_server", MLFLOW), body={"name": MLFLOW}),
    Scenario("mlflow_app.create", asks=outside.tracking("app", MLFLOW), body={"name": MLFLOW}),
    Scenario("mlflow_access.grant", after=_TRACKED, asks={"kind": "app", "name": MLFLOW, "namespaces": ["default", "kube-public"]}),
    Scenario("mlflow.delete", after=_TRACKED, asks=outside.tracked("app", MLFLOW)),
    Scenario("training_job.submit", _TRAINS, training.JOB, course="training"),
    Scenario("training_job.delete", (*_TRAINS, "training_job.submit"), training.end, course="training"),
    Scenario("model.download", asks=training.MODEL, course="downloads", processes=True),
    Scenario("download.cancel", asks=training.download, beside=_SLOWLY, differs=(training.FETCHED,), course="downloads", processes=True),
    Scenario("mlflow.share", WHOLE, sharing.asked, path={"kind": "app", "name": sharing.HERE}, course="sharing", **_SHARED),
    _served("model_deployment.create", _SERVES, serving.DEPLOYMENT),
    _served("model_deployment.update", _DEPLOYED, {**serving.DEPLOYMENT, "env": {"LEVEL": "debug"}}),
    _served("model_deployment.scale", _DEPLOYED, {**serving.NAMED, "replicas": 2}),
    _served("sglang_router.create", _DEPLOYED, serving.ROUTER),
    _served("autoscaler.create", _DEPLOYED, serving.AUTOSCALER, before=serving.prometheus, differs=serving.SCALED_BY),
    _served("autoscaler.delete", (*_DEPLOYED, "autoscaler.create"), serving.SCALED, differs=serving.SCALED_BY),
    _served("sglang_router.delete", (*_DEPLOYED, "sglang_router.create"), serving.ROUTED, differs=serving.SCALED_BY),
    _served("model_deployment.delete", _DEPLOYED, serving.NAMED),
    _served("model_pool.create", _SERVES, serving.POOL),
    _served("model_binding.create", _POOL_MADE, {**serving.POOLED, "business": "chat", "workers": 1}),
    _served("model_pool.scale", _BOUND, {**serving.POOLED, "workers": 1}),
    _served("model_binding.delete", _BOUND, {**serving.POOLED, "business": "chat"}),
    _served("model_pool.delete", _POOL_MADE, serving.POOLED),
    _managed("inference_endpoint.create", _SERVES, serving.CREATED, before=serving.put_model),
    _managed("inference_endpoint.update", _ENDPOINT, serving.CHANGED),
    _managed("inference_endpoint.delete", _ENDPOINT, serving.ENDED),
    Scenario("cluster.create", after=(), course="cluster.create"),
    Scenario("cluster.import", after=(), before=outside.make_foreign_eks, asks=outside.foreign_eks, course="cluster.import"),
    Scenario(
        "feature.disable",
        after=_FSX,
        asks={"feature": "fsx_csi"},
        door="feature_update",
        body={"fsx_csi": {"enabled": False}},
        course="feature.disable",
    ),
    Scenario("training_plan.buy", after=(), asks=outside.offering, anew=_BOUGHT_UNKNOWN, course="training_plan.buy"),
    Scenario("cluster.delete", asks={"delete_data": True}),
)


def scenario(workflow: str) -> Scenario:
    """The scenario of a workflow. Raises LookupError when it has none."""
    found = PREPARATIONS.get(workflow) or next((each for each in SCENARIOS if each.workflow == workflow), None)
    if found is None:
        raise LookupError(f"workflow {workflow} has no scenario; add a line to tests/weather/scenarios.py")
    return found


def journey() -> tuple[Scenario, ...]:
    """Every workflow that may follow another, in order: from an empty account to an empty account."""
    return course("journey")


def course(name: str) -> tuple[Scenario, ...]:
    """The workflows of one course, in order."""
    return tuple(each for each in SCENARIOS if each.course == name)


def faults_of_the_table() -> list[str]:
    """What is wrong with the table, one sentence each: a workflow without a scenario, one that is gone, an order that cannot be."""
    have = [each.workflow for each in SCENARIOS]
    told = [f"workflow {name} has no scenario: add a line to SCENARIOS" for name in BY_NAME if name not in (*have, *ELSEWHERE)]
    told += [f"scenario {name} is of no workflow" for name in have if name not in BY_NAME]
    told += [f"workflow {name} has two scenarios" for name in set(have) if have.count(name) > 1]
    told += [
        f"{each.workflow} is after {name}, which has no scenario"
        for each in SCENARIOS
        for name in each.after
        if name not in (*have, *PREPARATIONS)
    ]
    return told
