"""The client, the reflector and the log follower against a sandbox cluster: churn, restarts, compaction, tokens that end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.ensure.clusters import ARN, Sandbox, sandbox  # noqa: F401 - a fixture
from tests.kube.child import Child, start

from instantstart.base import problems
from instantstart.kube import cache, watching
from instantstart.kube.cache import Reflector
from instantstart.kube.client import KubeCluster, LogQuery
from instantstart.kube.connect import KubeGateway
from instantstart.kube.log_pods import Choice
from instantstart.kube.log_reader import Lines, Note, Want


@pytest.fixture
def watched() -> Iterator[watching.Watching]:
    made = watching.Watching()
    yield made
    made.stop()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "BACKOFF_SECONDS", (0.05, 0.3))


def until(check: Callable[[], bool], seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}, "data": data}


def a_pod(name: str, *command: str, restart: str = "Never") -> dict[str, Any]:
    container = {"name": "main", "image": "busybox:1", "command": list(command)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": restart, "containers": [container]},
    }


def same_as_listed(reflector: Reflector[Any], kube: KubeCluster) -> bool:
    listed = {(p["metadata"]["namespace"], p["metadata"]["name"]): p["metadata"]["resourceVersion"] for p in kube.list("Pod")}
    return {key: item.version for key, item in reflector.snapshot().items.items()} == listed


def churn(kube: KubeCluster, start: int, count: int) -> None:
    """Make pods, label some, delete some."""
    for number in range(start, start + count):
        kube.create(a_pod(f"p{number}", "sleep", "1000"))
        kube.patch("Pod", f"p{number}", {"metadata": {"labels": {"n": str(number)}}}, namespace="default")
        if number % 3 == 0:
            kube.delete("Pod", f"p{number}", "default")


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    """A cluster that can be killed; without controllers, so that nobody else writes."""
    running = start(tmp_path / "kubernetes")
    yield running
    running.kill()


@pytest.fixture
def outside(child: Child) -> Iterator[KubeCluster]:
    """The product's client of it."""
    gateway = KubeGateway(lambda _: "admin-token")
    yield gateway.cluster(child.ref)
    gateway.close()


def answers(kube: KubeCluster) -> bool:
    try:
        return bool(kube.version())
    except problems.Unreachable:
        return False


def test_the_copy_equals_a_fresh_list_after_churn(sandbox: Sandbox, watched: watching.Watching) -> None:  # noqa: F811
    reflector = watched.pods(sandbox.kube)
    churn(sandbox.kube, 0, 30)
    until(lambda: same_as_listed(reflector, sandbox.kube))
    assert reflector.counts.lists == 1


def test_the_copy_survives_the_servers_death(child: Child, outside: KubeCluster, watched: watching.Watching) -> None:
    reflector = watched.pods(outside)
    churn(outside, 0, 10)
    until(lambda: same_as_listed(reflector, outside))
    child.kill()
    until(lambda: reflector.snapshot().problem is not None)
    child.process = start(child.folder).process
    until(lambda: answers(outside))
    churn(outside, 10, 10)
    until(lambda: same_as_listed(reflector, outside))
    assert len(reflector.snapshot().items) > 10


def test_the_copy_is_listed_anew_when_its_version_is_forgotten(child: Child, outside: KubeCluster, watched: watching.Watching) -> None:
    reflector = watched.pods(outside)
    churn(outside, 0, 5)
    until(lambda: same_as_listed(reflector, outside))
    child.kill()
    until(lambda: reflector.snapshot().problem is not None)
    gateway = KubeGateway(lambda _: "admin-token")
    child.process = start(child.folder).process
    child.tell("compact")  # before, or just after, the reflector is back: both must end in the truth
    other = gateway.cluster(child.ref)
    for number in (1, 2):
        other.delete("Pod", f"p{number}", "default")
    child.tell("compact")
    until(lambda: same_as_listed(reflector, outside))
    gateway.close()


def test_a_token_that_ends_is_renewed_without_a_word(sandbox: Sandbox) -> None:  # noqa: F811
    made: list[str] = []

    def source(_: object) -> str:
        made.append(f"token-{len(made) + 1}")
        return made[-1]

    gateway = KubeGateway(source)
    sandbox.aws.admitted = {"token-1"}
    kube = gateway.cluster(sandbox.ref)
    kube.version()
    sandbox.aws.admitted = {"token-2"}
    sandbox.server.nudge(ARN)
    until(lambda: bool(kube.list("Namespace")) and made == ["token-1", "token-2"])
    gateway.close()


def test_an_identity_without_access_entry_is_told_what_to_add(sandbox: Sandbox) -> None:  # noqa: F811
    gateway = KubeGateway(lambda _: "stranger", principal_source=lambda: "arn:aws:sts::111122223333:assumed-role/Ops/i-1")
    with pytest.raises(problems.Denied) as found:
        gateway.cluster(sandbox.ref).list("Pod")
    assert found.value.code == "kubernetes.not_admitted"
    assert found.value.evidence["principal"] == "arn:aws:iam::111122223333:role/Ops"
    gateway.close()


def test_a_clusters_invalid_object_points_at_its_fields(sandbox: Sandbox) -> None:  # noqa: F811
    bad = a_pod("bad", "true")
    bad["spec"]["containers"][0]["name"] = "Not A Name"
    with pytest.raises(problems.Invalid) as found:
        sandbox.kube.apply(bad)
    assert "/spec/containers/0/name" in {f.pointer for f in found.value.fields}


def test_kubernetes_own_refusals_are_read_right(sandbox: Sandbox) -> None:  # noqa: F811
    kube = sandbox.kube
    kube.create(config("a", x="1"))
    with pytest.raises(problems.Conflict) as exists:
        kube.create(config("a"))
    assert exists.value.code == "kubernetes.already_exists"
    with pytest.raises(problems.Conflict) as other:
        kube.delete("ConfigMap", "a", "default", uid="00000000-0000-0000-0000-000000000000")
    assert other.value.code == "kubernetes.precondition_failed"
    assert not kube.serves("ray.io/v1/RayJob")
    assert kube.find("ConfigMap", "none", "default") is None
    assert kube.may("create", "Pod", "default")


def test_a_long_list_is_paged_from_one_snapshot(sandbox: Sandbox) -> None:  # noqa: F811
    kube = sandbox.kube
    for number in range(7):
        kube.create(config(f"c{number}"))
    pages = kube.pages("ConfigMap", "default", limit=3)
    first = next(pages)
    kube.create(config("c-late"))
    names = [c["metadata"]["name"] for page in (first, *pages) for c in page]
    assert "c-late" not in names
    assert {f"c{n}" for n in range(7)} <= set(names)


def told(sandbox: Sandbox, pod: str, enough: Callable[[list[str]], bool]) -> list[str]:  # noqa: F811
    """Lines and notes of a pod's log, until there is enough."""
    seen: list[str] = []
    reader = sandbox.gateway.logs.open(sandbox.kube, Want((Choice("default", pod=pod),)), lambda: None)

    def look() -> bool:
        for event in reader.take():
            if isinstance(event, Lines):
                seen.extend(line.partition(" ")[2] for line in event.text[:-1].split("\n"))
            elif isinstance(event, Note):
                seen.append(event.text)
        return enough(seen)

    until(look, 60)
    reader.close()
    return seen


def running(name: str, script: str, restart: str = "Never") -> dict[str, Any]:
    """A pod whose command the sandbox's kubelet really runs."""
    made = a_pod(name, "sh", "-c", script, restart=restart)
    made["metadata"]["annotations"] = {"sandbox.instantstart.dev/run": "process"}
    return made


def test_a_log_is_followed_to_its_end(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.join("ml.m5.2xlarge")
    sandbox.kube.create(running("speaker", "for i in 1 2 3; do echo line $i; sleep 0.2; done; exit 3"))
    seen = told(sandbox, "speaker", lambda texts: any(text.startswith("The container ended") for text in texts))
    assert seen == ["line 1", "line 2", "line 3", "The container ended with exit code 3."]
    whole = sandbox.kube.log("speaker", "default", LogQuery(tail_lines=1))
    assert whole == "line 3\n"


def births(seen: list[str]) -> list[str]:
    return [text for text in seen if text.startswith("born-")]


def test_a_log_is_followed_over_restarts_without_a_line_lost_or_twice(sandbox: Sandbox) -> None:  # noqa: F811
    sandbox.join("ml.m5.2xlarge")
    sandbox.kube.create(running("again", "date +born-%s%N; sleep 0.3; echo dying; exit 1", restart="Always"))
    seen = told(sandbox, "again", lambda texts: len(births(texts)) == 3)
    assert len(set(births(seen))) == 3
    first, second = (seen.index(birth) for birth in births(seen)[:2])
    between = seen[first:second]
    assert "dying" in between
    assert any(text.startswith("The container main was restarted") for text in between)
