"""HPAs and KEDA over metrics that are really scraped: up, down, to zero and back, paused, refused, fallen back."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench, pod_spec, workload
from tests.sandbox.kubernetes.serving import MODEL, deployment, gpus, ready, server, service, until, url

from instantstart_sandbox.kubernetes.autoscaling.definitions import SCALED, definitions
from instantstart_sandbox.kubernetes.autoscaling.hpa import AUTOSCALERS
from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.loops.objects import condition_of

Object = dict[str, Any]
DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
QUERY = 'sum(vllm:num_requests_running{app="a"} + vllm:num_requests_waiting{app="a"})'
CRDS = Path(__file__).parents[4] / "shared" / "crds"


async def keda(bench: Bench, prometheus: bool = True) -> None:
    """KEDA as its chart installs it, and a Prometheus behind a Service."""
    for made in definitions():
        await bench.client.create(DEFINITIONS, made)
    for name in ("keda-operator", "keda-admission-webhooks"):
        await bench.client.create("deployments.apps", workload("Deployment", name))
    if prometheus:
        await bench.client.create(
            "deployments.apps", workload("Deployment", "prom", pod=pod_spec(image="quay.io/prometheus/prometheus:v3.5.0"))
        )
        await bench.client.create("services", {**service("prom", 9090), "spec": {"selector": {"app": "prom"}, "ports": [{"port": 9090}]}})
    await bench.wait(20)


def scaled(name: str = "s", target: str = "a", **spec: Any) -> Object:
    trigger = {"type": "prometheus", "metadata": {"serverAddress": "http://prom.default.svc:9090", "query": QUERY, "threshold": "2"}}
    whole = {
        "scaleTargetRef": {"name": target},
        "minReplicaCount": 1,
        "maxReplicaCount": 4,
        "pollingInterval": 15,
        "triggers": [trigger],
        **spec,
    }
    return {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": name, "namespace": "default"}, "spec": whole}


def replicas(bench: Bench, name: str = "a") -> int:
    return int(bench.get("deployments.apps", name, "default")["spec"]["replicas"])


def condition(bench: Bench, kind: str, name: str = "s") -> str:
    return str((condition_of(bench.get(SCALED, name, "default"), kind) or {}).get("status"))


def test_load_scales_a_model_up_and_its_end_scales_it_down(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await gpus(bench, nodes=1)
        await keda(bench)
        await bench.client.create("deployments.apps", deployment("a", server("--model", MODEL)))
        await bench.client.create("services", service("a"))
        await until(bench, lambda: ready(bench, "a"))
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
        await bench.client.create(SCALED, scaled(advanced={"horizontalPodAutoscalerConfig": {"behavior": behavior}}))
        await until(bench, lambda: condition(bench, "Ready") == "True")
        hpa = bench.get(AUTOSCALERS, "keda-hpa-s", "default")
        assert hpa["spec"]["metrics"][0]["external"]["metric"]["name"] == "s0-prometheus"
        base = await url(bench, "a")
        async with httpx2.AsyncClient(timeout=60) as client:
            await client.post(f"{base}/_sandbox/serving", content="delay=100000")
            body = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
            calls = [asyncio.create_task(client.post(f"{base}/v1/chat/completions", json=body)) for _ in range(6)]
            await until(bench, lambda: replicas(bench) == 3, "scaled up", 10)
            assert condition(bench, "Active") == "True"
            told = bench.cluster.measures.query(QUERY, bench.clock.now())
            assert told["result"][0]["value"][1] == "6"
            for each in calls:
                each.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
        pods = [p["metadata"]["name"] for p in bench.pods() if p["metadata"]["labels"].get("app") == "a"]
        for name in pods:
            await bench.client.delete("pods", name, "default")
        await until(bench, lambda: replicas(bench) == 1, "scaled down", 20)

    on_bench(tmp_path, test)


def test_nothing_to_do_goes_to_zero_after_the_cooldown(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await keda(bench)
        await bench.client.create("deployments.apps", workload("Deployment", "a", replicas=2))
        await bench.client.create(SCALED, scaled(minReplicaCount=0, cooldownPeriod=120))
        await bench.wait(60)
        assert replicas(bench) == 2
        await until(bench, lambda: replicas(bench) == 0, "to zero", 30)
        assert condition(bench, "Active") == "False"
        bench.cluster.measures.samples.put("vllm:num_requests_running", {"app": "a"}, bench.clock.now(), 9.0)
        bench.cluster.measures.samples.put("vllm:num_requests_waiting", {"app": "a"}, bench.clock.now(), 0.0)
        await until(bench, lambda: replicas(bench) == 4, "back", 10)

    on_bench(tmp_path, test)


def test_a_pause_holds_the_count(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await keda(bench)
        await bench.client.create("deployments.apps", workload("Deployment", "a", replicas=1))
        await bench.client.create(SCALED, scaled())
        await bench.wait(30)
        note = {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": "2"}}}
        await bench.client.patch(SCALED, "s", note, "default")
        await bench.wait(30)
        assert (replicas(bench), condition(bench, "Paused")) == (2, "True")
        assert bench.cluster.read(AUTOSCALERS, "keda-hpa-s", "default") is None
        await bench.client.patch(SCALED, "s", {"metadata": {"annotations": {"autoscaling.keda.sh/paused-replicas": None}}}, "default")
        await bench.wait(30)
        assert condition(bench, "Paused") == "False"
        await bench.client.delete(SCALED, "s", "default")
        await bench.wait(30)
        assert bench.cluster.read(AUTOSCALERS, "keda-hpa-s", "default") is None

    on_bench(tmp_path, test)


def test_two_autoscalers_on_one_workload_are_refused(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await keda(bench)
        for name in ("a", "b"):
            await bench.client.create("deployments.apps", workload("Deployment", name))
        await bench.client.create(SCALED, scaled())
        hpa = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "b"}, "maxReplicas": 3}
        await bench.client.create(AUTOSCALERS, {"metadata": {"name": "mine", "namespace": "default"}, "spec": hpa})
        for body, words in (
            (scaled("t"), "the workload 'a' of type 'apps/v1.Deployment' is already managed by the ScaledObject 's'"),
            (scaled("t", "b"), "already managed by the hpa 'mine'"),
            (scaled("t", "c", minReplicaCount=5), "MinReplicaCount=5 must be less than or equal to MaxReplicaCount=4"),
        ):
            with pytest.raises(ApiError) as refused:
                await bench.client.create(SCALED, body)
            assert refused.value.code == 403
            assert words in refused.value.message

    on_bench(tmp_path, test)


def test_what_is_wrong_stands_in_the_conditions_and_the_fallback_holds(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await keda(bench, prometheus=False)
        await bench.client.create(SCALED, scaled("gone", "nothing"))
        await bench.client.create("deployments.apps", workload("Deployment", "a", replicas=1))
        await bench.client.create(SCALED, scaled(fallback={"failureThreshold": 2, "replicas": 3}))
        await bench.wait(20)
        assert condition(bench, "Ready", "gone") == "False"
        assert condition(bench, "Ready") == "False"
        assert any("no such host" in message for reason, message in bench.events() if reason == "KEDAScalerFailed")
        await until(bench, lambda: replicas(bench) == 3, "the fallback", 15)
        assert condition(bench, "Fallback") == "True"

    on_bench(tmp_path, test)


def test_cron_and_cpu(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await keda(bench)
        await bench.client.create("deployments.apps", workload("Deployment", "a", replicas=1))
        hours = {"timezone": "UTC", "start": "0 0 * * *", "end": "59 23 * * *", "desiredReplicas": "3"}
        await bench.client.create(SCALED, scaled(triggers=[{"type": "cron", "metadata": hours}]))
        await until(bench, lambda: replicas(bench) == 3, "cron", 15)
        # cpu: as much as the pods say by annotation
        await bench.client.create(
            "deployments.apps",
            {**workload("Deployment", "metrics-server"), "metadata": {"name": "metrics-server", "namespace": "kube-system"}},
        )
        requests: Object = {"container": {"resources": {"requests": {"cpu": "100m"}}}}
        busy = workload("Deployment", "b", pod=pod_spec(**requests), annotations={"sandbox.instantstart.dev/cpu-usage": "160m"}, replicas=1)
        await bench.client.create("deployments.apps", busy)
        hpa = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "b"}, "maxReplicas": 3}
        hpa["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}]
        await bench.client.create(AUTOSCALERS, {"metadata": {"name": "mine", "namespace": "default"}, "spec": hpa})
        await until(bench, lambda: replicas(bench, "b") == 3, "cpu", 15)
        told = bench.get(AUTOSCALERS, "mine", "default")["status"]
        assert told["currentMetrics"][0]["resource"]["current"]["averageUtilization"] == 160

    on_bench(tmp_path, test)


def test_a_scale_in_takes_the_pods_that_cost_least(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await bench.machine(kind="ml.m5.4xlarge")
        await bench.client.create("deployments.apps", workload("Deployment", "a", replicas=4))
        await bench.wait(20)
        names = sorted(p["metadata"]["name"] for p in bench.pods())
        for name in names[:2]:
            note = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "1000"}}}
            await bench.client.patch("pods", name, note, "default")
        await bench.client.scale("deployments.apps", "a", 2, "default")
        await bench.wait(60)
        assert sorted(p["metadata"]["name"] for p in bench.pods()) == names[:2]

    on_bench(tmp_path, test)


@pytest.mark.skipif(not CRDS.exists(), reason="KEDA's own definitions are not on this machine")
def test_the_schema_has_the_fields_of_kedas_own() -> None:
    def shape(schema: Any) -> Any:
        told = {k: schema[k] for k in ("type", "enum", "default", "format") if k in schema}
        told["required"] = sorted(schema.get("required") or [])
        told["properties"] = {
            k: shape(v) for k, v in (schema.get("properties") or {}).items() if k not in ("apiVersion", "kind", "metadata")
        }
        return {**told, "items": shape(schema["items"])} if isinstance(schema.get("items"), dict) else told

    theirs = yaml.safe_load((CRDS / f"{SCALED}.yaml").read_text().replace("{{", "").replace("}}", ""))
    real = theirs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    ours = definitions()[0]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert shape(ours) == shape(real)
