"""The stand-in bundles of the HyperPod dependencies do on emulated nodes what the real charts do."""

from __future__ import annotations

from pathlib import Path

import yaml
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench

import instantstart_sandbox
from instantstart_sandbox.kubernetes.health import workload_ready

BUNDLES = Path(instantstart_sandbox.__file__).parent / "bundles"


async def install(bench: Bench) -> None:
    for path in sorted(BUNDLES.glob("*/*.yaml"), key=lambda p: p.name):
        for obj in yaml.safe_load_all(path.read_text()):
            resource = bench.cluster.catalog.of_kind(obj["apiVersion"], obj["kind"])
            assert resource is not None, (path, obj["kind"])
            await bench.client.apply(resource.qualified, obj)
    await bench.settle()


def test_every_bundle_is_accepted_and_its_daemons_are_ready_before_and_after_nodes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await install(bench)
        for work in bench.cluster.read_all("daemonsets.apps"):
            assert workload_ready(bench.cluster, work["metadata"]["namespace"], "DaemonSet", work["metadata"]["name"])
        gpu = await bench.machine("i-0aaaaaaaaaaaaaaa1", "ml.p5.48xlarge")
        neuron = await bench.machine("i-0aaaaaaaaaaaaaaa2", "ml.trn1.32xlarge")
        plain = await bench.machine("i-0aaaaaaaaaaaaaaa3", "ml.m5.4xlarge")
        await bench.wait(60)
        offered = {n: bench.get("nodes", n)["status"]["allocatable"] for n in (gpu, neuron, plain)}
        assert (offered[gpu]["nvidia.com/gpu"], offered[gpu]["vpc.amazonaws.com/efa"]) == ("8", "32")
        assert (offered[neuron]["aws.amazon.com/neurondevice"], offered[neuron]["vpc.amazonaws.com/efa"]) == ("16", "8")
        assert not {k for k in offered[plain] if "." in k}
        for resource in ("deployments.apps", "daemonsets.apps"):
            for work in bench.cluster.read_all(resource):
                space, name = work["metadata"]["namespace"], work["metadata"]["name"]
                assert workload_ready(bench.cluster, space, work["kind"], name), (space, name, work["status"])

    on_bench(tmp_path, test)
