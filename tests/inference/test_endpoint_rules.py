"""The rules of endpoints, each by itself: the pointer that it gives, and a sentence that says what to do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.inference import wishes

from instantstart.base import problems, trees
from instantstart.capabilities.inference.endpoints import parts, rules
from instantstart.ensure.managed.component_state import State, Status

Settings = dict[str, Any]
CLOUDWATCH = {"type": "cloudwatch", "name": "calls", "target": 5.0, "namespace": "AWS/SageMaker", "metric": "Invocations"}
PROMETHEUS = {"type": "prometheus", "name": "queue", "target": 5.0, "query": "sum(x)", "workspace": wishes.WORKSPACE}


def refused(settings: Settings, facts: rules.Facts | None = None) -> dict[str, str]:
    """Pointer -> sentence of every violation."""
    problem = rules.refusal(rules.findings(settings, facts or wishes.facts()))
    return {f.pointer: f.message for f in problem.fields} if problem else {}


def scaled(*triggers: dict[str, Any], **more: Any) -> Settings:
    return wishes.plain(replicas=None, autoscaling={"triggers": list(triggers), **more})


def test_whole_wishes_are_taken() -> None:
    for settings in (wishes.plain(), wishes.everything(), wishes.jumpstart(), *map(wishes.of_source, wishes.SOURCES)):
        settings["server"] = {k: v for k, v in (settings.get("server") or {}).items() if k != "command"}
        assert refused(settings) == {}


@pytest.mark.parametrize(
    ("patch", "pointer", "words"),
    [
        ({"cache": {"l1": False, "l2": "tieredstorage"}}, "/cache/l1", "needs the first"),
        ({"cache": {"l2": "redis"}}, "/cache/redis_url", "needs its address"),
        ({"cache": {"l2": "tieredstorage", "redis_url": "redis://a:1"}}, "/cache/redis_url", "only with l2 redis"),
        ({"routing": {"enabled": True, "strategy": "kvaware"}}, "/routing/strategy", "there is no cache"),
        ({"routing": {"enabled": True, "strategy": "kvaware"}, "cache": {"l1": False}}, "/routing/strategy", "there is no cache"),
        (
            {"routing": {"enabled": True, "strategy": "kvaware"}, "cache": {"l1": True}, "invocation_path": "invocations"},
            "/invocation_path",
            "completions",
        ),
        ({"routing": {"enabled": True, "strategy": "session"}}, "/routing/session_key", "tells sessions apart"),
        ({"routing": {"enabled": True, "strategy": "roundrobin", "session_key": "x"}}, "/routing/session_key", "counts only"),
        ({"metrics": {"port": 9000}}, "/metrics/port", "Metrics are read from port 9000"),
        ({"server": {"probe_port": 9001}}, "/server/probe_port", "never be ready"),
        ({"server": {"port": 80, "args": []}}, "/server/port", "below 1024"),
        ({"server": {"args": ["--port", "9000"]}}, "/server/args", "listens on port 9000"),
        ({"server": {"args": ["--tensor-parallel-size", "8"]}}, "/server/accelerators", "over 8 accelerators"),
        ({"server": {"accelerators": None}}, "/server/accelerators", "never guessed"),
        ({"server": {"accelerators": 8}}, "/server/accelerators", "8 were asked for"),
        ({"server": {"memory": "500Gi"}}, "/server/memory", "more than"),
        ({"server": {"image": None}}, "/server/image", "Name the image"),
        ({"server": {"max_queue_size": 3}}, "/server/max_queue_size", "only with max_concurrent_requests"),
        ({"instance_types": None}, "/instance_types", "at least one"),
        ({"instance_types": [wishes.TYPE, wishes.TYPE]}, "/instance_types/1", "twice"),
        ({"instance_types": ["ml.p5.48xlarge"]}, "/instance_types/0", "no instance group or node pool of ml.p5.48xlarge"),
        ({"source": {"location": None}}, "/source/location", "needs location"),
        ({"source": {"repository": "a/b"}}, "/source/repository", "counts only for huggingface"),
        ({"source": {"type": None}}, "/source/type", "Say where the model is"),
        ({"tls": {"hosted_zone_id": "Z1"}}, "/tls/hosted_zone_id", "certificate of yours"),
        ({"tls": {"certificate_arn": "arn:aws:acm:a:111122223333:certificate/b"}}, "/tls/domain_name", "needs the domain"),
        ({"tls": {"domain_name": "a.b"}}, "/tls/certificate_arn", "needs the certificate"),
        ({"autoscaling": {"triggers": [CLOUDWATCH]}}, "/replicas", "Autoscaling owns the number"),
    ],
)  # fmt: skip
def test_what_does_not_agree_is_refused_at_its_field(patch: Settings, pointer: str, words: str) -> None:
    settings = trees.merge(wishes.plain(), patch, rules.WHOLE)
    told = refused(settings)
    assert pointer in told, told
    assert words in told[pointer]


@pytest.mark.parametrize(
    ("settings", "pointer", "words"),
    [
        (scaled(), "/autoscaling/triggers", "at least one trigger"),
        (scaled(CLOUDWATCH, min_replicas=3, max_replicas=1), "/autoscaling/min_replicas", "cannot both be"),
        (scaled(CLOUDWATCH, min_replicas=0, max_replicas=0), "/autoscaling/max_replicas", "nothing is ever served"),
        (scaled(CLOUDWATCH, CLOUDWATCH), "/autoscaling/triggers/1/name", "Two triggers"),
        (scaled({**CLOUDWATCH, "metric": None}), "/autoscaling/triggers/0/metric", "needs metric"),
        (scaled({**PROMETHEUS, "workspace": None}), "/autoscaling/triggers/0/workspace", "needs workspace"),
        (scaled({**PROMETHEUS, "metric": "x"}), "/autoscaling/triggers/0/metric", "does not belong"),
        (
            scaled({**PROMETHEUS, "workspace": "https://aps-workspaces.us-west-2.example.com/workspaces/ws-1"}),
            "/autoscaling/triggers/0/workspace",
            "only addresses of Amazon Managed Prometheus",
        ),
    ],
)
def test_triggers_are_whole(settings: Settings, pointer: str, words: str) -> None:
    told = refused(settings)
    assert words in told[pointer]


def test_tiered_storage_must_be_on_and_unknown_is_no_refusal() -> None:
    settings = wishes.plain(cache={"l1": True, "l2": "tieredstorage"})
    assert "it is off" in refused(settings, wishes.facts(tiered=False))["/cache/l2"]
    unread = problems.Unreachable("aws.unreachable", "No answer.")
    assert refused(settings, wishes.facts(tiered=unread, types=unread, operator=unread)) == {}


@pytest.mark.parametrize("state", [State.off, State.installing, State.degraded, State.failed, State.removing])
def test_an_operator_that_does_not_run_is_said(state: State) -> None:
    told = refused(wishes.plain(), wishes.facts(operator=Status("inference_operator", state, "It is not there.")))
    assert told == {"": "The inference operator is not ready: It is not there."}


def test_a_service_whose_variable_breaks_the_server_is_told() -> None:
    told = refused(wishes.plain(), wishes.facts(links=("vllm",)))
    assert "VLLM_PORT" in told["/namespace"]


def test_secrets_do_not_stand_in_variables_and_are_not_shown() -> None:
    settings = wishes.plain(server={"env": {"HF_TOKEN": "x", "LOG_LEVEL": "info", "ANY": "hf_0123456789abcdef"}})
    assert set(refused(settings)) == {"/server/env/HF_TOKEN", "/server/env/ANY"}
    assert refused(settings, wishes.facts(fresh=False)) == {}
    assert parts.shown(settings)["server"]["env"] == {"HF_TOKEN": parts.HIDDEN, "LOG_LEVEL": "info", "ANY": parts.HIDDEN}
    assert "env" not in parts.kept(settings)["server"]
    assert parts.shown(wishes.plain()) == wishes.plain()


def test_every_violation_is_told_at_once() -> None:
    settings = wishes.plain(cache={"l2": "redis"}, routing={"strategy": "session"}, server={"accelerators": None}, metrics={"port": 9000})
    assert set(refused(settings)) == {"/cache/redis_url", "/routing/session_key", "/server/accelerators", "/metrics/port"}


def test_a_gated_model_needs_its_licence_accepted() -> None:
    role = "arn:aws:iam::111122223333:role/gated"
    told = refused(wishes.jumpstart(source={"accept_eula": None, "gated_role_arn": role}))
    assert "licence is accepted" in told["/source/accept_eula"]
    warned = rules.findings(wishes.jumpstart(source={"accept_eula": None}), wishes.facts())
    assert any(f.check == "source/accept_eula" and f.level == "warn" for f in warned)


def test_a_jumpstart_model_takes_one_type_and_no_server_of_ours() -> None:
    settings = wishes.jumpstart(instance_types=[wishes.TYPE, "ml.g6.12xlarge"])
    assert "one instance type" in refused(settings)["/instance_types"]
    told = refused(wishes.jumpstart(), wishes.facts(foreign=("server.image",)))
    assert "brings its own server" in told["/server/image"]


def test_routing_variables_and_kind_are_fixed() -> None:
    before = wishes.plain()
    pointers = {f.check for f in rules.fixed(before, wishes.plain(routing={"enabled": True, "strategy": "session", "session_key": "x"}))}
    assert pointers == {"routing/enabled"}
    assert [f.check for f in rules.fixed(before, wishes.plain(server={"env": {"A": "b"}}))] == ["server/env"]
    assert [f.check for f in rules.fixed(before, wishes.jumpstart())][-1] == "source/type"
    assert rules.fixed(before, wishes.plain(replicas=3)) == []


def test_a_patch_answers_for_what_it_names_and_not_for_what_was_wrong_before() -> None:
    before = wishes.plain(cache={"l2": "redis"})
    facts = wishes.facts()
    after = trees.merge(before, {"replicas": 2}, rules.WHOLE)
    known = rules.findings(before, facts)
    assert [f.check for f in rules.changed_by(rules.findings(after, facts), known, {"replicas": 2}) if f.level == "fail"] == []
    named = rules.changed_by(rules.findings(after, facts), known, {"cache": {"l2": "redis"}})
    assert [f.check for f in named if f.level == "fail"] == ["cache/redis_url"]
    away = wishes.facts(operator=Status("inference_operator", State.degraded, "It has 0 of 1 pods ready."))
    kept = rules.changed_by(rules.findings(after, away), rules.findings(before, away), {"replicas": 2})
    assert [f.check for f in kept if f.level == "fail"] == ["operator"]
