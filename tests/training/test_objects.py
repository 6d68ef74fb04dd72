"""The objects of jobs: true to the operators' own schemas, the arguments exact, nothing of a person's text near a shell."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from tests.training import asks

from instantstart.capabilities.training.jobs import objects, rules, specs
from instantstart.ensure.capacity.nodes import EFA, GPU
from instantstart.ensure.running.pod_shapes import DO_NOT_DISRUPT
from instantstart.ensure.training import recipe_scripts
from instantstart_sandbox.kubernetes.kubelet.environment import expand

_SHARED = Path(__file__).parents[3] / "shared"
CRDS, SCHEMA = _SHARED / "crds", _SHARED / "reference" / "hyperpodpytorchjob.schema.json"
SHAPES = dict(asks.shapes())


def job_of(wanted: objects.Wanted) -> dict[str, Any]:
    return wanted.resources()[-1]


def template_of(wanted: objects.Wanted) -> dict[str, Any]:
    spec = job_of(wanted)["spec"]
    groups = spec.get("replicaSpecs") or (spec.get("rayClusterSpec") or spec)["workerGroupSpecs"]
    found: dict[str, Any] = groups[0]["template"]
    return found


@pytest.mark.skipif(not SCHEMA.exists(), reason="the SDK's schema is not on this machine")
@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("pytorch")])
def test_a_pytorch_job_is_what_the_sdk_models(name: str) -> None:
    schema = {**json.loads(SCHEMA.read_text())["spec"], "additionalProperties": False}
    spec = copy.deepcopy(job_of(SHAPES[name])["spec"])
    for kind in ("podAffinity", "podAntiAffinity"):  # the SDK's generator took a node's terms for a pod's: Kubernetes' own type holds
        spec["replicaSpecs"][0]["template"]["spec"]["affinity"].pop(kind, None)
    assert wrong(spec, schema) == []


@pytest.mark.skipif(not CRDS.exists(), reason="KubeRay's definitions are not on this machine")
@pytest.mark.parametrize("name", [name for name in SHAPES if name.startswith("ray")])
def test_a_ray_object_is_what_kuberay_defines(name: str) -> None:
    job = job_of(SHAPES[name])
    assert wrong(job, definition({"RayJob": "rayjobs", "RayCluster": "rayclusters"}[job["kind"]])) == []


def wrong(value: Any, schema: dict[str, Any]) -> list[str]:
    found = jsonschema.Draft202012Validator(schema).iter_errors(value)
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in found]


@cache
def definition(plural: str) -> dict[str, Any]:
    told = yaml.load((CRDS / f"{plural}.ray.io.yaml").read_text(), yaml.CSafeLoader)
    version = next(v for v in told["spec"]["versions"] if v["name"] == "v1")
    made: dict[str, Any] = _closed(version["schema"]["openAPIV3Schema"])
    return made


def _closed(schema: Any) -> Any:
    """The schema, with unknown fields refused where it does not say that it keeps them; int-or-string as the API takes it."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    made = {key: _closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and "type" in schema and "additionalProperties" not in schema:
        made["additionalProperties"] = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    return made


def test_defaults_are_the_recovery_budget_that_is_promised_and_results_do_not_vanish() -> None:
    policy = job_of(asks.wanted())["spec"]["runPolicy"]
    assert policy["jobMaxRetryCount"] == 5
    assert policy["restartPolicy"] == {"numRestartBeforeFullJobRestart": 3, "evalPeriodSeconds": 21600, "maxFullJobRestarts": 1}
    assert (policy["cleanPodPolicy"], policy["ttlSecondsAfterFinished"]) == ("All", 604_800)


@pytest.mark.parametrize("name", list(SHAPES))
def test_every_pod_has_what_training_needs(name: str) -> None:
    """Cases 48, 49, 54, 58: equal requests and limits, EFA, no disruption, no service links, shared memory."""
    wanted = SHAPES[name]
    template = template_of(wanted)
    spec, container = template["spec"], template["spec"]["containers"][0]
    assert template["metadata"]["annotations"][DO_NOT_DISRUPT] == "true"
    assert spec["enableServiceLinks"] is False
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert (container["resources"]["limits"][GPU], container["resources"]["limits"][EFA]) == ("8", "32")
    assert {"name": "shm", "mountPath": "/dev/shm"} in container["volumeMounts"]
    assert spec["nodeSelector"]["node.kubernetes.io/instance-type"] == "ml.p5.48xlarge"
    if wanted.ask.nodes > 1:
        assert {"podAntiAffinity", "podAffinity"} <= set(spec["affinity"])
    assert (spec.get("serviceAccountName") or spec.get("automountServiceAccountToken")) in ("trainer", False)


@pytest.mark.parametrize("name", [n for n, w in SHAPES.items() if w.ask.recipe is not None])
def test_the_shown_arguments_are_those_that_the_container_computes(name: str) -> None:
    """What the kubelet makes of the object's variables is read by the script's own function."""
    wanted = SHAPES[name]
    if wanted.is_scripted:
        pod = (
            template_of(wanted)
            if wanted.ask.runs_as == "pytorch"
            else job_of(wanted)["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]
        )
        container = pod["spec"]["containers"][0]
        known: dict[str, str] = dict(wanted.rendezvous())
        for entry in container["env"]:
            if "value" in entry:
                known[entry["name"]] = expand(entry["value"], known)
        told = json.loads(known[recipe_scripts.plan().CONFIG_VARIABLE])
        assert told == wanted.config
        assert recipe_scripts.argv_of(told, known) == wanted.argv()
        if wanted.ask.runs_as == "pytorch":
            assert container["command"] == list(recipe_scripts.COMMAND)
        else:
            assert job_of(wanted)["spec"]["entrypoint"] == "python3 /opt/instantstart/run.py"
    else:
        command = template_of(wanted)["spec"]["containers"][0]["command"]
        assert [expand(word, {"X": "no"}) for word in command] == wanted.argv() == ["/app/run", "$(X)"]


def test_a_hostile_argument_arrives_as_it_is() -> None:
    assert asks.wanted().argv()[-1] == 'a "b" $(HOME) $HOME; rm -rf /'


def test_rays_head_has_no_accelerators_and_its_job_is_submitted_once() -> None:
    """Case 52: a fixed submission id; case 48: the head asks for no GPU."""
    spec = job_of(SHAPES["ray_job verl full"])["spec"]
    head = spec["rayClusterSpec"]["headGroupSpec"]
    assert head["rayStartParams"]["num-gpus"] == "0"
    assert set(head["template"]["spec"]["containers"][0]["resources"]["limits"]) == {"cpu", "memory"}
    assert spec["jobId"] == "llm-op-1"
    assert (spec["shutdownAfterJobFinishes"], spec["preRunningDeadlineSeconds"], spec["activeDeadlineSeconds"]) == (True, 7200, 3600)
    assert spec["rayClusterSpec"]["rayVersion"] == "2.46.0"


def test_queue_and_priority_are_kueues_where_a_queue_is_named_and_kubernetes_own_elsewhere() -> None:
    queued, plain = asks.wanted(queue="q", priority="high"), asks.wanted(priority="high")
    labels = job_of(queued)["metadata"]["labels"]
    assert (labels[objects.QUEUE_LABEL], labels[objects.PRIORITY_LABEL]) == ("q", "high")
    assert "priorityClassName" not in template_of(queued)["spec"]
    assert template_of(plain)["spec"]["priorityClassName"] == "high"


def test_what_was_asked_is_kept_on_the_object_without_secrets_and_gives_the_same_job_again() -> None:
    wanted = SHAPES["pytorch llama_factory full"]
    told = objects.asked_of(job_of(wanted))
    assert told is not None
    again = specs.SubmitTrainingJob.model_validate_json(json.dumps(told))
    assert again == wanted.ask
    assert objects.asked_of({"metadata": {"annotations": {objects.ASKED: "{"}}}) is None
    assert objects.asked_of({"metadata": {}}) is None


def test_what_was_settled_survives_as_json() -> None:
    settled = asks.settled(asks.ask(nodes=2))
    assert rules.Settled.of(json.loads(json.dumps(settled.learned()))) == settled
