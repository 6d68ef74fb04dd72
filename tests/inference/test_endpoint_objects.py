"""Settings become objects that the operator's own definition takes, and objects become the same settings again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from tests.inference import wishes

from instantstart.base import trees
from instantstart.capabilities.inference.endpoints import objects, rules
from instantstart.ensure.inference import endpoint_judging as judging
from instantstart.ensure.inference.endpoint_judging import Seen
from instantstart.ensure.inference.endpoints import CONFIG, JUMPSTART

Settings = dict[str, Any]
#: definitions of others, for comparison only; not part of this repository
CRDS = Path(__file__).parents[3] / "shared" / "crds"
WISHES: list[tuple[str, Settings]] = [
    (CONFIG, wishes.plain()),
    (CONFIG, wishes.everything()),
    *((CONFIG, wishes.of_source(kind)) for kind in wishes.SOURCES),
    (CONFIG, wishes.plain(server={"accelerators": 0, "accelerator_resource": None})),
    (CONFIG, wishes.plain(server={"accelerator_resource": "aws.amazon.com/neuron"})),
    (CONFIG, wishes.plain(server={"probe_port": 9000}, metrics={"port": 9001})),
    (CONFIG, wishes.plain(cache={"l1": True, "l2": "none"})),
    (CONFIG, wishes.plain(metrics={"enabled": False})),
    (JUMPSTART, wishes.jumpstart()),
    (
        JUMPSTART,
        wishes.jumpstart(
            source={"model_version": "1.2.3", "hub": "own-hub", "gated_role_arn": "arn:aws:iam::111122223333:role/gated"},
            server={"env": {"A": "b"}},
            sagemaker_endpoint="jump-ep",
            routing={"strategy": "prefixaware"},
            cache={"l1": True, "l2": "tieredstorage"},
        ),
    ),
]


@pytest.mark.parametrize(("kind", "settings"), WISHES, ids=range(len(WISHES)))
def test_an_object_is_read_as_what_it_was_made_of(kind: str, settings: Settings) -> None:
    made = objects.build(settings, kind)
    assert trees.differences(settings, objects.read({"kind": kind, "spec": made}), rules.WHOLE) == {}


@given(st.sets(st.sampled_from(sorted(trees.flat(wishes.everything(), rules.WHOLE))), max_size=8))
def test_whatever_is_left_out_is_read_back_as_left_out(gone: set[str]) -> None:
    settings = copy.deepcopy(wishes.everything())
    for name in gone - {"source.type", "server.port", "autoscaling.triggers", "routing.enabled", "cache.l2", "server.accelerators"}:
        trees.drop(settings, name)
    made = objects.build(settings, CONFIG)
    found = objects.read({"kind": CONFIG, "spec": made})
    # probes are always written, with the usual path and patience
    usual = {"server.health_path", "server.startup_seconds"}
    assert {n for n in trees.differences(settings, found, rules.WHOLE) if n not in usual} == set()


@pytest.mark.parametrize(("kind", "settings"), WISHES, ids=range(len(WISHES)))
def test_the_operators_definition_takes_it(kind: str, settings: Settings) -> None:
    path = CRDS / f"{kind.lower()}s.inference.sagemaker.aws.amazon.com.yaml"
    if not path.exists():
        pytest.skip("the definitions of others are not here")
    definition = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)
    version = next(v for v in definition["spec"]["versions"] if v["name"] == "v1")
    schema = strict(version["schema"]["openAPIV3Schema"]["properties"]["spec"])
    assert [e.message for e in Draft202012Validator(schema).iter_errors(objects.build(settings, kind))] == []


def strict(schema: Any) -> Any:
    """The same schema with unknown fields refused, as the server does under strict field validation."""
    if isinstance(schema, list):
        return [strict(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: strict(value) for key, value in schema.items()}
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" in made and isinstance(made["properties"], dict) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    return made


def test_the_sagemaker_endpoint_bears_our_tag_and_only_where_there_is_one() -> None:
    whole = objects.resource(wishes.target(wishes.everything(), CONFIG))
    assert whole["spec"]["tags"] == [{"name": "instantstart.dev/cluster", "value": "demo"}]
    assert "tags" not in objects.resource(wishes.target(wishes.plain(), CONFIG))["spec"]
    assert whole["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "instantstart"


def test_what_a_jumpstart_model_has_no_place_for_is_named() -> None:
    settings = wishes.jumpstart(server={"image": "x", "env": {"A": "b"}}, invocation_path="v1/completions")
    assert objects.foreign_to_jumpstart(settings) == ["server.image", "invocation_path"]


def test_a_rolled_back_deployment_is_seen_whoever_says_complete() -> None:
    asked = objects.build(wishes.plain(), CONFIG)
    worker = asked["worker"]
    container = {"name": "qwen", "image": worker["image"], "args": [*worker["args"], "--kv-transfer-config", "{}"], **worker}
    container["args"] = [*worker["args"], "--kv-transfer-config", "{}"]
    deployment = {"spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "sidecar-reverse-proxy"}, container]}}}}
    endpoint = {"metadata": {"name": "qwen"}, "spec": asked, "status": {}}
    assert judging.not_running(asked, Seen(endpoint, deployment)) == {}
    container["args"] = ["--model", "/opt/ml/model"]
    container["image"] = "vllm/vllm-openai:old"
    found = judging.not_running(asked, Seen(endpoint, deployment))
    assert set(found) == {"worker.image", "worker.args"}
    told = judging.rolled_back("default/qwen", found, "it went back")
    assert told.evidence["runs"]["worker.image"] == "vllm/vllm-openai:old"
    assert told.evidence["asked"]["worker.image"] == worker["image"]
    deployment["spec"]["replicas"] = 3
    assert judging.not_running(asked, Seen(endpoint, deployment))["replicas"] == (1, 3)
    changed = {**asked, "invocationEndpoint": "v1/completions"}
    assert judging.lost(changed, Seen(endpoint, deployment)) == {"invocationEndpoint": ("v1/completions", "v1/chat/completions")}
