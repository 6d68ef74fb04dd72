"""The inference operator: endpoints are refused, deployed, updated, rolled back and removed as the service does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.sandbox.kubernetes.loops_bench import Bench, on_bench
from tests.sandbox.kubernetes.serving import MODEL, SERVING, call, gpus, until

from instantstart_sandbox.kubernetes.errors import ApiError
from instantstart_sandbox.kubernetes.inference.definitions import CONFIGS, JUMPSTART, REGISTRATIONS, definitions
from instantstart_sandbox.world.seams import Addon

Object = dict[str, Any]
ADDON = "amazon-sagemaker-hyperpod-inference"
CRDS = Path(__file__).parents[4] / "shared" / "crds"


def endpoint(name: str = "qwen", notes: dict[str, str] | None = None, **spec: Any) -> Object:
    worker = {
        "image": "vllm/vllm-openai:v0.11.0",
        "args": ["--model", MODEL, "--port", "8000"],
        "modelInvocationPort": {"containerPort": 8000},
        "modelVolumeMount": {"name": "model"},
        "resources": {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}},
        "probes": {"readinessProbe": {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 2}},
    }
    source = {"modelSourceType": "huggingface", "huggingFaceModel": {"modelId": MODEL}}
    whole = {
        "modelName": name,
        "instanceType": "ml.g5.12xlarge",
        "invocationEndpoint": "v1/chat/completions",
        "modelSourceConfig": source,
        "worker": {**worker, **spec.pop("worker", {})},
        **spec,
    }
    return {"metadata": {"name": name, "namespace": "default", "annotations": {SERVING: "load=0.01", **(notes or {})}}, "spec": whole}


async def operator(bench: Bench, **configuration: Any) -> None:
    """The add-on with its pods, and GPUs."""
    bench.aws.installed = [Addon(ADDON, "v1.0.0", "ACTIVE", configuration)]
    await bench.hear()
    await gpus(bench, nodes=2)
    await until(bench, lambda: CONFIGS in bench.cluster.catalog)


def state(bench: Bench, name: str = "qwen", kind: str = CONFIGS) -> str:
    return str((bench.get(kind, name, "default").get("status") or {}).get("state"))


async def complete(bench: Bench, name: str = "qwen") -> Object:
    await until(bench, lambda: state(bench, name) == "DeploymentComplete", "complete", 5)
    return bench.get(CONFIGS, name, "default")


def test_an_endpoint_is_deployed_answers_and_goes(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        await bench.client.create(CONFIGS, endpoint(endpointName="Qwen", replicas=2))
        await until(bench, lambda: state(bench) == "DeploymentInProgress")
        found = await complete(bench)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        assert found["status"]["endpoints"]["sagemaker"]["state"] == "CreationCompleted"
        assert found["status"]["tlsCertificate"]["certificateHealth"] == "Valid"
        assert found["status"]["replicas"] == 2
        deployed = bench.get("deployments.apps", "qwen", "default")
        names = [c["name"] for c in deployed["spec"]["template"]["spec"]["containers"]]
        assert names == ["qwen", "sidecar-reverse-proxy", "otel-collector"]
        ingress = bench.get("ingresses.networking.k8s.io", "alb-qwen", "default")
        assert ingress["status"]["loadBalancer"]["ingress"][0]["hostname"].startswith("k8s-ingress-default-alb-qwen")
        body = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
        assert (await call(bench, "qwen-service", "/v1/chat/completions", body)).status_code == 200
        await bench.client.delete(CONFIGS, "qwen", "default")
        await until(bench, lambda: not bench.cluster.read_all(CONFIGS) and not bench.pods(), "gone")
        left = [bench.cluster.read_all(r, "default") for r in ("deployments.apps", "ingresses.networking.k8s.io", REGISTRATIONS)]
        assert left == [[], [], []]
        assert bench.aws.balancers == {}

    on_bench(tmp_path, test)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"instanceTypes": ["ml.g5.xlarge"]}, "exactly one of instanceType, instanceTypes, nodeAffinity"),
        (
            {"kvCacheSpec": {"enableL1Cache": False, "enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "redis"}}},
            "needs enableL1Cache",
        ),
        ({"kvCacheSpec": {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "redis"}}}, "l2CacheLocalUrl is required"),
        ({"kvCacheSpec": {"enableL2Cache": True, "l2CacheSpec": {"l2CacheBackend": "tieredstorage"}}}, "TieredStorageConfig"),
        ({"intelligentRoutingSpec": {"enabled": True, "routingStrategy": "kvaware"}}, "kvaware needs kvCacheSpec"),
        ({"intelligentRoutingSpec": {"enabled": True, "routingStrategy": "session"}}, "SESSION_KEY"),
        ({"dnsConfig": {"hostedZoneId": "Z123"}}, "dnsConfig needs tlsConfig"),
        ({"autoScalingSpec": {"minReplicaCount": 3, "maxReplicaCount": 1}}, "must not be greater"),
        ({"modelSourceConfig": {"modelSourceType": "s3"}}, "s3Storage is required"),
    ],
)
def test_what_the_operator_refuses_is_told_in_the_status(spec: Object, words: str) -> None:
    from instantstart_sandbox.kubernetes.inference import rules

    spec = {**endpoint()["spec"], **spec}
    assert any(words in fault for fault in rules.config_faults(spec, tiered=False)), rules.config_faults(spec, tiered=False)


def test_a_refused_endpoint_has_failed_and_can_be_put_right(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        await bench.client.create(CONFIGS, endpoint(dnsConfig={"hostedZoneId": "Z1"}))
        await until(bench, lambda: state(bench) == "DeploymentFailed")
        told = bench.get(CONFIGS, "qwen", "default")["status"]["conditions"][0]
        assert (told["status"], told["reason"]) == ("False", "ValidationFailed")
        await bench.client.patch(CONFIGS, "qwen", {"spec": {"dnsConfig": None}}, "default")
        await complete(bench)
        with pytest.raises(ApiError) as refused:
            await bench.client.patch(CONFIGS, "qwen", {"spec": {"intelligentRoutingSpec": {"enabled": True}}}, "default")
        assert "intelligentRoutingSpec.enabled cannot be changed" in refused.value.message

    on_bench(tmp_path, test)


def test_an_update_whose_image_is_not_there_is_rolled_back(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        await bench.client.create(CONFIGS, endpoint())
        first = await complete(bench)
        change = {"spec": {"worker": {"image": "registry.invalid/vllm:nope"}}}
        await bench.client.patch(CONFIGS, "qwen", change, "default")
        await until(bench, lambda: state(bench) == "DeploymentInProgress")
        found = await complete(bench)
        assert found["metadata"]["generation"] > first["metadata"]["generation"]
        assert found["status"]["observedGeneration"] == first["metadata"]["generation"]
        assert found["status"]["conditions"][0]["reason"] == "RolledBack"
        image = bench.get("deployments.apps", "qwen", "default")["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == first["spec"]["worker"]["image"]
        # the quiet kind: complete of the new generation, and the old one runs
        await bench.client.patch(CONFIGS, "qwen", {"metadata": {"annotations": {"sandbox.instantstart.dev/rollback": "quiet"}}}, "default")
        change = {"spec": {"worker": {"image": "vllm/vllm-openai:v0.12.0"}}}
        await bench.client.patch(CONFIGS, "qwen", change, "default")
        await until(bench, lambda: state(bench) == "DeploymentInProgress")
        found = await complete(bench)
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        image = bench.get("deployments.apps", "qwen", "default")["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image == first["spec"]["worker"]["image"]

    on_bench(tmp_path, test)


def test_a_deployment_that_takes_too_long_fails(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        await bench.client.create(CONFIGS, endpoint(maxDeployTimeInSeconds=120, worker={"args": ["--model", "/nothing/here"]}))
        await until(bench, lambda: state(bench) == "DeploymentFailed", "failed", 10)
        told = bench.get(CONFIGS, "qwen", "default")["status"]["conditions"][0]
        assert "maxDeployTimeInSeconds" in told["message"]

    on_bench(tmp_path, test)


def test_without_the_add_on_nothing_happens(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        bench.aws.installed = [Addon(ADDON, "v1.0.0", "DELETE_FAILED")]
        await bench.hear()
        await bench.client.create(CONFIGS, endpoint())
        await bench.wait(300)
        assert "status" not in bench.get(CONFIGS, "qwen", "default")

    on_bench(tmp_path, test)


def test_a_jumpstart_model_is_deployed(tmp_path: Path) -> None:
    async def test(bench: Bench) -> None:
        await operator(bench)
        spec = {"model": {"modelId": "huggingface-llm-falcon-7b", "acceptEula": True}, "server": {"instanceType": "ml.g5.12xlarge"}}
        made = {"metadata": {"name": "falcon", "namespace": "default", "annotations": {SERVING: "load=0.01"}}, "spec": spec}
        await bench.client.create(JUMPSTART, made)
        await until(bench, lambda: state(bench, "falcon", JUMPSTART) == "DeploymentComplete", "complete", 5)
        answer = await call(bench, "falcon-service", "/invocations", {"inputs": "hello", "parameters": {"max_new_tokens": 60}})
        assert "hello" in answer.json()["generated_text"]

    on_bench(tmp_path, test)


def shape(schema: Any) -> Any:
    """What a schema says of fields: types, enums, bounds, defaults, required names. Embedded Kubernetes types are told by their kind."""
    told = {
        k: schema[k]
        for k in ("type", "enum", "default", "minimum", "maximum", "maxLength", "minLength", "maxItems", "minItems")
        if k in schema
    }
    told["required"] = sorted(schema.get("required") or [])
    told["properties"] = {k: shape(v) for k, v in (schema.get("properties") or {}).items()}
    if isinstance(schema.get("items"), dict):
        told["items"] = shape(schema["items"])
    return told


EMBEDDED = ("nodeAffinity", "resources", "probes", "volumes", "initContainers", "valueFrom", "status", "conditions")


def without(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    kept = {k: without(v) for k, v in tree.items()}
    if "properties" in kept:
        kept["properties"] = {k: v for k, v in kept["properties"].items() if k not in EMBEDDED}
    return kept


@pytest.mark.skipif(not CRDS.exists(), reason="the operator's own definitions are not on this machine")
@pytest.mark.parametrize("made", definitions()[:2], ids=lambda d: d["spec"]["names"]["kind"])
def test_the_schemas_have_the_fields_of_the_operators_own(made: Object) -> None:
    theirs = yaml.safe_load((CRDS / f"{made['metadata']['name']}.yaml").read_text().replace("{{", "").replace("}}", ""))
    ours = made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    real = theirs["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert without(shape(ours)) == without(shape(real))
