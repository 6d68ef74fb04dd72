"""What is made of an ask: the defaults that keep servers alive, requests whole, and doors shut."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.inference.serving_objects import LINE, SETTLED, WHOLE, autoscaler, deployment, pool, router

from instantstart.base.settings import Settings
from instantstart.capabilities.inference.deployments import objects, specs
from instantstart.ensure.inference import pools, server_checks, serving

Object = dict[str, Any]


def of_kind(made: list[Object], kind: str) -> Object:
    return next(o for o in made if o["kind"] == kind)


def pod_of(made: list[Object]) -> Object:
    found: Object = of_kind(made, "Deployment")["spec"]["template"]["spec"]
    return found


def test_a_pod_gets_no_service_links_whatever_services_are_called() -> None:
    """Case 58: a Service called vllm would set VLLM_PORT."""
    for made in (deployment(name="vllm"), pool(name="sglang"), router(name="sglang-router")):
        assert pod_of(made)["enableServiceLinks"] is False


def test_a_model_that_loads_slowly_is_not_killed_and_shares_memory() -> None:
    """Case 62."""
    pod = pod_of(deployment())
    container = pod["containers"][0]
    startup = container["startupProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] == SETTLED.startup_seconds
    assert container["livenessProbe"]["failureThreshold"] * container["livenessProbe"]["periodSeconds"] >= 120
    assert of_kind(deployment(), "Deployment")["spec"]["progressDeadlineSeconds"] > SETTLED.startup_seconds
    shm = next(v for v in pod["volumes"] if v["name"] == "shm")["emptyDir"]
    assert shm == {"medium": "Memory", "sizeLimit": "32Gi"}
    assert not any("hostPath" in v for v in pod["volumes"])
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]


def test_requests_are_limits_and_rights_are_few() -> None:
    container = pod_of(deployment(**WHOLE))["containers"][0]
    assert container["resources"]["requests"] == container["resources"]["limits"] == dict(SETTLED.resources)
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert pod_of(deployment())["automountServiceAccountToken"] is False


def test_tokens_are_named_and_never_written() -> None:
    container = pod_of(deployment(**WHOLE))["containers"][0]
    found = {e["name"]: e for e in container["env"]}
    assert found["HF_TOKEN"]["valueFrom"]["secretKeyRef"] == {"name": "hub", "key": "token"}
    assert found["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"] == {"name": "key", "key": "token"}


def test_a_change_stops_nothing_before_its_successor_serves() -> None:
    spec = of_kind(deployment(replicas=2), "Deployment")["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    pause = spec["template"]["spec"]["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == pause + 120
    assert of_kind(deployment(surge=False), "Deployment")["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize(("replicas", "there"), [(1, False), (2, True)])
def test_a_budget_is_there_for_more_than_one_pod(replicas: int, there: bool) -> None:
    kinds = [o["kind"] for o in deployment(replicas=replicas)]
    assert ("PodDisruptionBudget" in kinds) == there


def test_the_argv_goes_into_the_container_as_it_was_typed() -> None:
    """Case 60."""
    container = pod_of(deployment())["containers"][0]
    assert container["command"] == [
        "vllm",
        "serve",
        "org/model-8B",
        "--max-model-len",
        "8192",
        "--speculative-config",
        '{"method":"ngram"}',
    ]
    assert "args" not in container
    assert pod_of(deployment(command="--model org/m --port 8000", engine="vllm"))["containers"][0]["args"][0] == "--model"
    assert pod_of(deployment(command="a && b", shell=True, image="i:1"))["containers"][0]["command"] == ["/bin/sh", "-c", "a && b"]
    assert "command" not in pod_of(deployment(command="", image="nginx:1"))["containers"][0]
    assert pod_of(deployment(command="", argv=["x", "a b", "--c={}"], image="i:1"))["containers"][0]["command"] == ["x", "a b", "--c={}"]


def test_what_was_asked_is_on_the_object_and_gives_the_same_objects_again() -> None:
    made = deployment(replicas=2, **WHOLE)
    live = of_kind(made, "Deployment")
    asked = objects.asked_of(live)
    assert asked is not None
    again = specs.CreateModelDeployment.model_validate(asked.model_dump(), strict=False)
    server = server_checks.server(again, server_checks.mean(again, Settings()), SETTLED)
    assert objects.make(again, server, SETTLED, True, again.replicas) == made


def test_a_load_balancer_is_inside_the_vpc_and_open_to_nobody_else_by_default() -> None:
    """Case 63."""
    assert [o["kind"] for o in deployment()] == ["Service", "Deployment"]
    assert of_kind(deployment(), "Service")["spec"]["type"] == "ClusterIP"
    opened = [o for o in deployment(exposure="load_balancer") if o["kind"] == "Service"][1]
    assert opened["metadata"]["name"] == "qwen-external"
    assert opened["metadata"]["annotations"]["service.beta.kubernetes.io/aws-load-balancer-scheme"] == "internal"
    ranged = [o for o in deployment(exposure="load_balancer", source_ranges=["10.0.0.0/8"]) if o["kind"] == "Service"][1]
    assert ranged["spec"]["loadBalancerSourceRanges"] == ["10.0.0.0/8"]


def test_workers_begin_free_and_are_found_by_what_never_changes() -> None:
    made = of_kind(pool(), "Deployment")
    template = made["spec"]["template"]["metadata"]
    assert template["labels"]["business"] == "unassigned"
    assert template["annotations"][serving.DELETION_COST] == pools.COST_FREE
    assert "business" not in made["spec"]["selector"]["matchLabels"]


def test_a_router_may_read_pods_of_its_namespace_and_leads_to_one_business() -> None:
    made = router()
    assert of_kind(made, "Role")["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}]
    assert not any(o["kind"].startswith("Cluster") for o in made)
    words = pod_of(made)["containers"][0]["command"]
    chosen = set(words[words.index("--selector") + 1 : words.index("--prometheus-host")])
    assert chosen == {"business=chat", "instantstart.dev/served=warm", "instantstart.dev/serving=model-pool"}
    assert words[words.index("--service-discovery-port") + 1] == "30000"
    assert pod_of(made)["containers"][0]["readinessProbe"]["httpGet"]["path"] == "/readiness"


def test_a_router_gets_the_thresholds_that_were_asked() -> None:
    words = " ".join(pod_of(router(cache_threshold=0.5, balance_abs_threshold=32, balance_rel_threshold=1.5))["containers"][0]["command"])
    assert "--cache-threshold 0.5 --balance-abs-threshold 32 --balance-rel-threshold 1.5" in words
    assert "--cache-threshold" not in " ".join(pod_of(router())["containers"][0]["command"])


def test_an_autoscaler_asks_by_the_names_that_stand() -> None:
    trigger = of_kind(autoscaler(), "ScaledObject")["spec"]["triggers"][0]
    assert trigger["metadata"]["query"] == 'sum(vllm:num_requests_waiting{namespace="default",pod=~"qwen-[a-z0-9]{1,10}-[a-z0-9]{5}"})'
    assert all(isinstance(value, str) for value in trigger["metadata"].values())
    by_amp = autoscaler(amp=True)
    assert of_kind(by_amp, "TriggerAuthentication")["spec"] == {"podIdentity": {"provider": "aws"}}
    assert of_kind(by_amp, "ScaledObject")["spec"]["triggers"][0]["metadata"]["awsRegion"] == "region-1"
    assert "fallback" not in of_kind(autoscaler(metric="cache", threshold=0.8), "ScaledObject")["spec"]


@pytest.mark.parametrize("line", [LINE, "sglang serve --model-path 'a \"b\"' --x '{\"y\": [1, 2]}'"])
def test_the_form_that_is_filled_again_keeps_the_quotes(line: str) -> None:
    kept = json.loads(of_kind(deployment(command=line, image="i:1"), "Deployment")["metadata"]["annotations"][serving.ASKED])
    assert kept["command"] == line
