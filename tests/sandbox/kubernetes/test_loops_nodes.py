"""Nodes come from HyperPod instances; add-ons bring what makes them ready."""

from __future__ import annotations

from pathlib import Path

from tests.sandbox.kubernetes.loops_bench import START, Bench, FakeAws, on_bench, pod_spec, workload

from instantstart_sandbox.kubernetes.health import schedulable_nodes, workload_ready
from instantstart_sandbox.world.seams import Addon

HEALTH = "sagemaker.amazonaws.com/node-health-status"


def ready(bench: Bench, name: str) -> str:
    return next(str(c["status"]) for c in bench.get("nodes", name)["status"]["conditions"] if c["type"] == "Ready")


def taints(bench: Bench, name: str) -> set[tuple[str, str]]:
    return {(t["key"], t["effect"]) for t in bench.get("nodes", name)["spec"].get("taints") or []}


def test_an_instance_that_joined_becomes_a_ready_node_once_its_network_runs(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert schedulable_nodes(bench.cluster) == 0
        assert not workload_ready(bench.cluster, "kube-system", "Deployment", "coredns")
        assert workload_ready(bench.cluster, "kube-system", "DaemonSet", "aws-node")
        name = await bench.machine()
        assert ready(bench, name) == "True"
        node = bench.get("nodes", name)
        assert taints(bench, name) == set()
        assert schedulable_nodes(bench.cluster) == 1
        assert workload_ready(bench.cluster, "kube-system", "Deployment", "coredns")
        assert node["status"]["capacity"]["cpu"] == "32"
        assert "nvidia.com/gpu" not in node["status"]["capacity"]
        assert bench.get("leases.coordination.k8s.io", name, "kube-node-lease")["spec"]["holderIdentity"] == name

    on_bench(tmp_path, test)


def test_a_node_is_not_ready_at_first_and_says_why(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.client.delete("daemonsets.apps", "aws-node", "kube-system")
        name = await bench.machine()
        condition = next(c for c in bench.get("nodes", name)["status"]["conditions"] if c["type"] == "Ready")
        assert condition["status"] == "False"
        assert "cni plugin not initialized" in condition["message"]
        assert ("node.kubernetes.io/not-ready", "NoSchedule") in taints(bench, name)
        assert schedulable_nodes(bench.cluster) == 0
        eager = pod_spec(tolerations=[{"operator": "Exists"}])
        await bench.client.create("pods", {"metadata": {"name": "eager", "namespace": "default"}, "spec": eager})
        await bench.wait(10)
        assert bench.get("pods", "eager", "default")["status"]["phase"] == "Pending"
        assert "NetworkNotReady" in [r for r, _ in bench.events()]

    on_bench(tmp_path, test)


def test_devices_appear_with_their_plugin_and_go_with_it(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        name = await bench.machine(kind="ml.g5.12xlarge")
        plugin = workload("DaemonSet", "nvidia-device-plugin", pod=pod_spec("nvidia/k8s-device-plugin:v0"))
        await bench.client.create("daemonsets.apps", plugin)
        await bench.wait(20)
        assert bench.get("nodes", name)["status"]["allocatable"]["nvidia.com/gpu"] == "4"
        assert "vpc.amazonaws.com/efa" not in bench.get("nodes", name)["status"]["allocatable"]
        await bench.client.delete("daemonsets.apps", "nvidia-device-plugin", "default")
        await bench.wait(40)
        assert "nvidia.com/gpu" not in bench.get("nodes", name)["status"]["allocatable"]

    on_bench(tmp_path, test)


def test_deep_health_checks_taint_the_node_until_they_pass(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        changes = {"deep_health": "InProgress", "status": "DeepHealthCheckInProgress", "health": "Unschedulable"}
        name = await bench.machine(**changes)
        assert ready(bench, name) == "True"
        assert taints(bench, name) == {(HEALTH, "NoSchedule")}
        assert schedulable_nodes(bench.cluster) == 0
        await bench.machine(deep_health="Passed")
        assert taints(bench, name) == set()
        labels = bench.get("nodes", name)["metadata"]["labels"]
        assert labels["sagemaker.amazonaws.com/deep-health-check-status"] == "Passed"
        assert labels[HEALTH] == "Schedulable"

    on_bench(tmp_path, test)


def test_a_label_that_asks_for_a_reboot_reaches_hyperpod_once(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        name = await bench.machine()
        asked = {"metadata": {"labels": {HEALTH: "UnschedulablePendingReboot"}}}
        await bench.client.patch("nodes", name, asked)
        await bench.wait(120)
        assert bench.aws.actions == [("i-0aaaaaaaaaaaaaaa1", "reboot")]
        assert bench.get("nodes", name)["metadata"]["labels"][HEALTH] == "UnschedulablePendingReboot"
        await bench.machine(health="UnschedulablePendingReboot", status="SystemUpdating")
        assert ready(bench, name) == "Unknown"
        await bench.machine()
        assert ready(bench, name) == "True"
        assert bench.get("nodes", name)["metadata"]["labels"][HEALTH] == "Schedulable"
        await bench.client.patch("nodes", name, {"metadata": {"labels": {HEALTH: "UnschedulablePendingReplacement"}}})
        await bench.wait(5)
        assert bench.aws.actions[1:] == [("i-0aaaaaaaaaaaaaaa1", "replace")]

    on_bench(tmp_path, test)


def test_an_instance_that_is_gone_takes_its_node_and_pods_along(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        name = await bench.machine()
        await bench.client.create("pods", {"metadata": {"name": "lone", "namespace": "default"}, "spec": pod_spec()})
        await bench.wait(20)
        assert bench.get("pods", "lone", "default")["status"]["phase"] == "Running"
        bench.aws.machines = []
        await bench.hear()
        assert bench.cluster.read("nodes", name) is None
        await bench.wait(60)
        assert bench.pods() == []
        assert all(p["spec"].get("nodeName") is None for p in bench.pods("kube-system"))

    on_bench(tmp_path, test)


def test_a_cordon_and_other_peoples_taints_are_kept(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        name = await bench.machine()
        mine = {"key": "team", "value": "a", "effect": "NoSchedule"}
        await bench.client.patch("nodes", name, {"spec": {"unschedulable": True, "taints": [mine]}})
        await bench.wait(1)
        assert taints(bench, name) == {("team", "NoSchedule"), ("node.kubernetes.io/unschedulable", "NoSchedule")}
        await bench.client.patch("nodes", name, {"spec": {"unschedulable": None}})
        await bench.wait(1)
        assert taints(bench, name) == {("team", "NoSchedule")}

    on_bench(tmp_path, test)


def test_an_addons_objects_come_and_go_with_it_and_are_managed_by_eks(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        bench.aws.installed = [Addon("aws-mountpoint-s3-csi-driver", "v2.3.0", "CREATING", {"node": {"tolerateAllTaints": True}})]
        await bench.hear()
        node = bench.get("daemonsets.apps", "s3-csi-node", "kube-system")
        assert node["spec"]["template"]["spec"]["tolerations"] == [{"operator": "Exists"}]
        managers = {f["manager"] for f in node["metadata"]["managedFields"] if f.get("subresource") != "status"}
        assert managers == {"eks"}
        bench.get("csidrivers.storage.k8s.io", "s3.csi.aws.com")
        bench.aws.installed = [Addon("aws-mountpoint-s3-csi-driver", "v2.3.0", "DELETING")]
        await bench.hear()
        assert bench.cluster.read("csidrivers.storage.k8s.io", "s3.csi.aws.com") is None
        assert bench.cluster.read("daemonsets.apps", "s3-csi-node", "kube-system") is None
        bench.get("daemonsets.apps", "aws-node", "kube-system")

    on_bench(tmp_path, test)


def test_a_cluster_without_self_managed_copies_has_no_network(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert bench.cluster.read_all("daemonsets.apps") == []
        name = await bench.machine()
        assert ready(bench, name) == "False"
        bench.aws.installed = [Addon(n, "v1", "ACTIVE") for n in ("vpc-cni", "kube-proxy")]
        await bench.hear()
        await bench.wait(20)
        assert ready(bench, name) == "True"
        bench.aws.installed = [Addon("vpc-cni", "v1", "ACTIVE", {"env": {"ENABLE_PREFIX_DELEGATION": "false"}}), bench.aws.installed[1]]
        await bench.hear()
        node = bench.get("daemonsets.apps", "aws-node", "kube-system")
        assert node["spec"]["template"]["spec"]["containers"][0]["env"] == [{"name": "ENABLE_PREFIX_DELEGATION", "value": "false"}]

    aws = FakeAws()
    aws.self_managed = []
    on_bench(tmp_path, test, aws)


def test_every_addons_manifest_is_accepted_and_becomes_ready_on_big_enough_nodes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        names = [
            "eks-pod-identity-agent",
            "cert-manager",
            "metrics-server",
            "aws-mountpoint-s3-csi-driver",
            "aws-fsx-csi-driver",
            "aws-ebs-csi-driver",
            "amazon-sagemaker-hyperpod-training-operator",
            "amazon-sagemaker-hyperpod-inference",
            "amazon-sagemaker-hyperpod-observability",
            "amazon-sagemaker-hyperpod-taskgovernance",
        ]
        bench.aws.installed = [Addon(n, "v1", "CREATING") for n in names]
        await bench.hear()
        assert "rayclusters.ray.io" not in bench.cluster.catalog
        assert "clusterqueues.kueue.x-k8s.io" in bench.cluster.catalog
        await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.m5.12xlarge")
        await bench.wait(60)
        for resource in ("deployments.apps", "daemonsets.apps"):
            for work in bench.cluster.read_all(resource):
                space, name = work["metadata"]["namespace"], work["metadata"]["name"]
                assert workload_ready(bench.cluster, space, work["kind"], name), (space, name)

    on_bench(tmp_path, test)


def test_a_small_gpu_node_cannot_hold_every_addon(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        names = [
            "eks-pod-identity-agent",
            "cert-manager",
            "metrics-server",
            "aws-mountpoint-s3-csi-driver",
            "aws-fsx-csi-driver",
            "aws-ebs-csi-driver",
        ]
        bench.aws.installed = [Addon(n, "v1", "CREATING") for n in names]
        await bench.hear()
        await bench.machine(kind="ml.g5.xlarge")
        await bench.wait(60)
        waiting = [p for n in ("kube-system", "cert-manager") for p in bench.pods(n) if not p["spec"].get("nodeName")]
        assert waiting
        assert "1 Too many pods" in waiting[0]["status"]["conditions"][0]["message"]

    on_bench(tmp_path, test)


def test_a_restart_goes_on_where_it_was(tmp_path: Path) -> None:
    aws = FakeAws()

    async def before(bench: Bench) -> None:
        await bench.machine()
        await bench.client.create("deployments.apps", workload("Deployment", "web", replicas=2))
        await bench.wait(20)

    async def after(bench: Bench) -> None:
        pods = bench.pods()
        assert {p["status"]["phase"] for p in pods} == {"Running"}
        assert (
            bench.events().count(
                ("Scheduled", f"Successfully assigned default/{pods[0]['metadata']['name']} to hyperpod-i-0aaaaaaaaaaaaaaa1")
            )
            == 1
        )
        await bench.client.scale("deployments.apps", "web", 3, "default")
        await bench.wait(20)
        assert len(bench.pods()) == 3
        assert bench.get("deployments.apps", "web", "default")["status"]["readyReplicas"] == 3

    on_bench(tmp_path, before, aws)
    on_bench(tmp_path, after, aws, start=START + 3600)
