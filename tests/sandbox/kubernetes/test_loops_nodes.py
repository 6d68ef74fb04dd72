"""Nodes come from HyperPod instances; add-ons bring what makes them ready."""

from __future__ import annotations

from pathlib import Path

from instantstart_sandbox.kubernetes.health import schedulable_nodes, workload_ready
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench


def ready(bench: Bench, name: str) -> str:
    return next(c["status"] for c in bench.get("nodes", name)["status"]["conditions"] if c["type"] == "Ready")


def test_an_instance_that_joined_becomes_a_ready_node_once_its_network_runs(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        assert schedulable_nodes(bench.cluster) == 0
        assert not workload_ready(bench.cluster, "kube-system", "Deployment", "coredns")
        assert workload_ready(bench.cluster, "kube-system", "DaemonSet", "aws-node")
        name = await bench.machine()
        assert ready(bench, name) == "True"
        node = bench.get("nodes", name)
        assert "taints" not in node["spec"] or node["spec"]["taints"] == []
        assert schedulable_nodes(bench.cluster) == 1
        assert workload_ready(bench.cluster, "kube-system", "Deployment", "coredns")
        assert node["status"]["capacity"]["cpu"] == "32"
        assert "nvidia.com/gpu" not in node["status"]["capacity"]

    on_bench(tmp_path, test)
