"""No nodes yet, coming up, failing, ready: four different things, each with its sentence."""

from __future__ import annotations

from typing import Any

from tests.ensure.clusters import FACTS, STAND_INS, Sandbox
from tests.ensure.test_manifests import settled

from instantstart.base import problems
from instantstart.base.outcome import Done, Outcome, Wait
from instantstart.ensure.capacity import budgets, nodes
from instantstart.ensure.installs import bundles, manifests, slots, workloads
from instantstart.ensure.installs.releases import Check, Release
from instantstart.ensure.installs.workloads import State
from instantstart.kube.client import KubeCluster

CATALOG = bundles.load(STAND_INS)


def web(image: str = "busybox:1", behaviour: str = "sleep", **container: Any) -> Release:
    labels = {"app": "web"}
    notes = {"sandbox.instantstart.dev/run": behaviour}
    pod = {"metadata": {"labels": labels, "annotations": notes}, "spec": {"containers": [{"name": "main", "image": image, **container}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": pod}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}, "spec": spec}
    return Release("web", "1", "sha256:5", (deployment,), (Check("Deployment", "default", "web"),))


def reaches(kube: KubeCluster, release: Release, state: State) -> workloads.ReleaseState:
    """Wait until a release is in a state; what was seen then."""
    matching: list[workloads.ReleaseState] = []

    def look() -> Outcome:
        seen = workloads.observe(kube, release)
        if seen.state is not state:
            return Wait(1, f"{seen.state}: {seen.why}")
        matching.append(seen)
        return Done()

    settled(look)
    return matching[0]


def test_before_any_node_a_component_waits_for_nodes(kube: KubeCluster) -> None:
    agent = CATALOG.get("health-monitoring-agent").release(FACTS)
    assert workloads.observe(kube, agent).state is State.absent
    settled(lambda: manifests.ensure(kube, agent))
    seen = workloads.observe(kube, agent)
    assert seen.state is State.waiting_for_nodes
    assert seen.why is not None
    assert "no node that can take pods has joined the cluster yet" in seen.why
    assert isinstance(workloads.readiness(kube, agent), Wait)
    assert isinstance(workloads.readiness(kube, agent, without_nodes=True), Done)


def test_a_component_is_ready_once_its_pods_are(sandbox: Sandbox) -> None:
    kube, release = sandbox.kube, web()
    settled(lambda: manifests.ensure(kube, release))
    sandbox.join("ml.m5.2xlarge")
    seen = reaches(kube, release, State.ready)
    assert (seen.why, seen.workloads[0].ready, seen.workloads[0].wanted) == (None, 2, 2)
    settled(lambda: workloads.readiness(kube, release))


def test_an_accelerator_agent_has_nothing_to_do_on_cpu_nodes(sandbox: Sandbox) -> None:
    kube, agent = sandbox.kube, CATALOG.get("health-monitoring-agent").release(FACTS)
    settled(lambda: manifests.ensure(kube, agent))
    sandbox.join("ml.m5.2xlarge")
    seen = reaches(kube, agent, State.ready)
    assert {(w.ready, w.wanted) for w in seen.workloads} == {(0, 0)}


def test_device_plugins_make_a_gpu_node_whole(sandbox: Sandbox) -> None:
    kube = sandbox.kube
    for bundle in CATALOG.in_set("hyperpod-dependencies"):
        settled(lambda b=bundle: manifests.ensure(kube, b.release(FACTS)))  # type: ignore[misc]
    sandbox.join("ml.g5.8xlarge")
    settled(lambda: Done() if any(n.gpus and n.efa and n.usable for n in nodes.read(kube)) else Wait(1, str(nodes.read(kube))))
    (node,) = nodes.read(kube, "ml")
    assert (node.gpus, node.efa, node.instance_type, node.group) == (1, 1, "ml.g5.8xlarge", "gpu")
    assert node.instance_id == sandbox.aws.machines[0].instance_id


def test_pods_that_fit_nowhere_wait_for_nodes_with_the_schedulers_sentence(sandbox: Sandbox) -> None:
    kube, release = sandbox.kube, web(resources={"limits": {"nvidia.com/gpu": "1"}})
    sandbox.join("ml.m5.2xlarge")
    settled(lambda: manifests.ensure(kube, release))

    def look() -> Outcome:
        why = workloads.observe(kube, release).why or ""
        return Done() if "Insufficient nvidia.com/gpu" in why else Wait(1, why)

    settled(look)
    assert workloads.observe(kube, release).state is State.waiting_for_nodes


def test_an_image_that_is_nowhere_is_failing(sandbox: Sandbox) -> None:
    sandbox.join("ml.m5.2xlarge")
    settled(lambda: manifests.ensure(sandbox.kube, web("registry.invalid/web:1")))
    seen = reaches(sandbox.kube, web(), State.failing)
    assert seen.why is not None
    assert "of 2 pods: the image registry.invalid/web:1 of main cannot be pulled" in seen.why


def test_a_container_that_keeps_running_out_of_memory_is_failing(sandbox: Sandbox) -> None:
    sandbox.join("ml.m5.2xlarge")
    settled(lambda: manifests.ensure(sandbox.kube, web(behaviour="oom after 1")))
    seen = reaches(sandbox.kube, web(), State.failing)
    assert seen.why is not None
    assert "it used more memory than its limit" in seen.why


def test_pods_that_start_are_coming_up(sandbox: Sandbox) -> None:
    sandbox.join("ml.m5.2xlarge")
    settled(lambda: manifests.ensure(sandbox.kube, web(behaviour="unready")))
    seen = reaches(sandbox.kube, web(), State.progressing)
    assert seen.why is not None
    reached = workloads.readiness(sandbox.kube, web())
    assert isinstance(reached, Wait)
    assert reached.progress is not None
    assert (reached.progress.done, reached.progress.total) == (0, 1)


def test_a_webhook_that_sleeps_is_explained_by_its_pods(kube: KubeCluster) -> None:
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook", "namespace": "default"}}
    kube.create({**service, "spec": {"selector": {"app": "web"}, "ports": [{"port": 443}]}})
    settled(lambda: manifests.ensure(kube, web()))
    settled(lambda: Done() if kube.list("Pod", "default") else Wait(1, "no pods"))
    evidence = {"webhook": "check.example.com", "webhook_service": "default/hook"}
    error = problems.Busy("kubernetes.webhook_not_ready", "no endpoints", evidence=evidence)
    settled(lambda: Done() if "no node fits" in workloads.explain_webhook(kube, error).detail else Wait(1, "not scheduled"))
    gone = problems.Busy("kubernetes.webhook_not_ready", "no endpoints", evidence={**evidence, "webhook_service": "default/other"})
    assert "its service default/other is not there" in workloads.explain_webhook(kube, gone).detail
    other = problems.Busy("kubernetes.throttled", "slow down")
    assert workloads.explain_webhook(kube, other) is other


def test_pod_slots_are_counted_on_nodes_that_take_pods(sandbox: Sandbox) -> None:
    sandbox.join("ml.g5.xlarge")
    settled(lambda: Done() if slots.read(sandbox.kube).total else Wait(1, "no slots"))
    found = slots.read(sandbox.kube)
    assert found.total == 14
    assert found.sentence() == f"14 pod slots, {found.used + found.waiting} needed"


def test_a_budget_that_allows_nothing_is_named(sandbox: Sandbox) -> None:
    kube = sandbox.kube
    settled(lambda: manifests.ensure(kube, web()))
    node = sandbox.join("ml.m5.2xlarge")
    reaches(kube, web(), State.ready)
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": "default"}}
    kube.create({**budget, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}})
    settled(lambda: Done() if len(budgets.held(kube, [node])) == 2 else Wait(1, "not judged"))
    assert {h.budget for h in budgets.held(kube, [node])} == {"web"}
    assert budgets.held(kube, ["another"]) == []
