"""Features through REST: presence is intent, equal starts nothing, what rests on another stays, and every violation is told at once."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.clusters.test_door import Door
from tests.clusters.worlds import REGION, SandboxProcess, bundles

from instantstart import main
from instantstart.base.settings import Settings
from instantstart.capabilities.room import Room

PATH = "/clusters/feat/features"
#: the world, and the engine's waits, at this many seconds a second
RATE = 40.0


@pytest.fixture(scope="module")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxProcess]:
    """A world of this module's own, whose time goes fast."""
    made = SandboxProcess(tmp_path_factory.mktemp("fast"), RATE)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def shared_room(shared_sandbox: SandboxProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    """The product's rooms around it, with the same clock."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in shared_sandbox.environment().items():
            patch.setenv(name, value)
        folder = tmp_path_factory.mktemp("house")
        made = main.compose(Settings(data_dir=folder, bundles_dir=bundles(), region=REGION, clock_rate=RATE))
        yield made
        made.kube.close()
        made.store.close()


class Panel:
    """The features panel of the standing cluster, as a client of the door sees it."""

    def __init__(self, door: Door, sandbox: SandboxProcess, room: Room) -> None:
        self.door, self.sandbox, self.room = door, sandbox, room

    def get(self) -> dict[str, Any]:
        """Every feature by name, read anew."""
        for aws in self.room.aws._regions.values():
            aws._kept.clear()
        return {item["name"]: item for item in self.door.get(PATH)["items"]}

    def plan(self, **asked: Any) -> Any:
        """The dry run of a difference."""
        answer = self.door.call("PATCH", PATH, asked, params={"dry_run": True})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def patch(self, **asked: Any) -> Any:
        """Ask, with the plan's approval where it gives one; the whole answer."""
        approval = self.plan(**asked)["approval"]
        return self.door.call("PATCH", PATH, asked, params={"approval": approval} if approval else {})

    def switch(self, **asked: Any) -> list[dict[str, Any]]:
        """Ask and see every operation to its end."""
        answer = self.patch(**asked)
        assert answer.status_code == 202, answer.text
        return [self.end(operation["id"]) for operation in answer.json()["operations"]]

    def end(self, operation: str) -> dict[str, Any]:
        """One operation at its end."""
        for _ in range(20):
            told: dict[str, Any] = self.door.get(f"/operations/{operation}/wait", seconds=10)
            if told["status"] in ("succeeded", "failed", "blocked", "cancelled"):
                return told
        raise AssertionError([(s["name"], s["status"], s["because"]) for s in told["stages"]])


@pytest.fixture(scope="module")
def door(shared_room: Room, standing: Any) -> Iterator[Door]:
    """The app as the process serves it, with its engine running at the pace of the wall."""
    assert main.first_admin(shared_room)
    secret = (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    shared_room.engine.launch()
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)
    shared_room.engine.shutdown()


@pytest.fixture
def panel(door: Door, shared_sandbox: SandboxProcess, shared_room: Room) -> Panel:
    """The panel."""
    return Panel(door, shared_sandbox, shared_room)


def test_the_whole_state_is_told_and_unknown_names_are_refused(panel: Panel) -> None:
    told = panel.get()
    assert {"cert_manager", "training_operator", "karpenter", "tiered_checkpointing"} <= set(told)
    assert {item["state"] for item in told.values()} == {"off"}
    assert all(item["why"] for item in told.values())
    assert panel.door.refusal("GET", f"{PATH}/toaster", 404)["code"] == "feature.unknown"
    assert panel.door.get(f"{PATH}/cert_manager")["versions"]


def test_every_violation_is_told_at_once_with_its_pointer(panel: Panel) -> None:
    wrong = {
        "toaster": {"enabled": True},
        "training_operator": None,
        "tiered_checkpointing": {"enabled": True, "memory_percent": 101},
        "keda": {"enabled": False, "adopt": True},
        "metrics_server": {"enabled": True, "version": "newest"},
        "observability": {"enabled": True, "grafana_workspace_arn": "arn:aws:grafana:us-west-2:123456789012:/workspaces/g-1"},
    }
    told = panel.door.refusal("PATCH", PATH, 422, wrong)
    assert {field["pointer"] for field in told["fields"]} == {
        "/toaster", "/training_operator", "/tiered_checkpointing/memory_percent", "/keda/adopt", "/metrics_server/version",
        "/observability/grafana_workspace_arn",
    }  # fmt: skip
    second = {
        "inference_operator": {"enabled": True},
        "cert_manager": {"enabled": False},
        "fsx_csi": {"version": "v1.6.0-eksbuild.1"},
        "metrics_server": {"enabled": True, "version": "v9.9.9-eksbuild.1", "configuration": {"replicas": "two", "speed": 1}},
        "tiered_checkpointing": {"enabled": True, "bucket": "nobody-has-this-one", "namespace": "nowhere"},
        "kuberay": {"enabled": True, "overwrite": ["Deployment a/b"]},
    }
    told = panel.door.refusal("PATCH", PATH, 422, second)
    assert {field["pointer"] for field in told["fields"]} == {
        "/cert_manager/enabled", "/fsx_csi/enabled", "/metrics_server/version", "/tiered_checkpointing/bucket",
        "/tiered_checkpointing/namespace", "/kuberay/overwrite/0",
    }  # fmt: skip
    third = {"metrics_server": {"enabled": True, "configuration": {"replicas": "two", "speed": 1}}}
    told = panel.door.refusal("PATCH", PATH, 422, third)
    assert {field["pointer"] for field in told["fields"]} == {
        "/metrics_server/configuration/replicas",
        "/metrics_server/configuration/speed",
    }
    told = panel.door.refusal("POST", f"{PATH}/repair", 422, {"features": ["s3_csi", "toaster"]})
    assert [(field["pointer"], "must be one of" in field["message"]) for field in told["fields"]] == [("/features/1", True)]
    assert {item["state"] for item in panel.get().values()} == {"off"}


@pytest.mark.slow
def test_the_story_of_the_inference_operator_and_cert_manager(panel: Panel) -> None:
    plan = panel.plan(inference_operator={"enabled": True})
    assert [line for line in plan["make"] if line.startswith("cert-manager") and "because inference_operator needs it" in line]
    assert plan["approval"] is None
    (made,) = panel.switch(inference_operator={"enabled": True})
    assert made["status"] == "succeeded", made
    told = panel.get()
    assert (told["inference_operator"]["state"], told["cert_manager"]["state"]) == ("on", "on")

    again = panel.patch(inference_operator={"enabled": True}, cert_manager={"enabled": True})
    assert (again.status_code, again.json()["changed"], again.json()["operations"]) == (200, False, [])

    (other,) = panel.switch(task_governance={"enabled": True})
    assert other["status"] == "succeeded"
    assert panel.get()["cert_manager"]["state"] == "on"

    refused = panel.door.refusal("PATCH", PATH, 409, {"cert_manager": {"enabled": False}})
    assert (refused["code"], refused["evidence"]["needed_by"]) == ("feature.needed_by", ["inference_operator"])
    plan = panel.plan(cert_manager={"enabled": False})
    assert ("fail", "needed_by") in [(f["level"], f["check"]) for f in plan["findings"]]
    assert plan["approval"] is None

    missing = panel.door.refusal("PATCH", PATH, 409, {"inference_operator": {"enabled": False}})
    assert missing["code"] == "approval.missing"
    off = panel.switch(inference_operator={"enabled": False}, cert_manager={"enabled": False}, task_governance={"enabled": False})
    assert [o["spec"]["feature"] for o in off] == ["inference_operator", "task_governance", "cert_manager"]
    assert {o["status"] for o in off} == {"succeeded"}, off
    told = panel.get()
    assert {n: told[n]["state"] for n in ("inference_operator", "cert_manager", "task_governance", "metrics_server", "fsx_csi")} == {
        "inference_operator": "off", "cert_manager": "off", "task_governance": "off", "metrics_server": "on", "fsx_csi": "on",
    }  # fmt: skip
    rest = panel.switch(metrics_server={"enabled": False}, fsx_csi={"enabled": False})
    assert {o["status"] for o in rest} == {"succeeded"}, rest


def test_two_clients_and_a_key_start_one_operation_for_one_wish(panel: Panel) -> None:
    asked = {"metrics_server": {"enabled": True}}
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        answers = [f.result() for f in [pool.submit(panel.door.call, "PATCH", PATH, asked) for _ in range(4)]]
    assert {a.status_code for a in answers} == {202}, [a.text for a in answers]
    assert len({a.json()["operations"][0]["id"] for a in answers}) == 1
    assert panel.end(answers[0].json()["operations"][0]["id"])["status"] == "succeeded"

    key = {"Idempotency-Key": "one-wish"}
    off = {"metrics_server": {"enabled": False}}
    approval = panel.plan(**off)["approval"]
    first = panel.door.call("PATCH", PATH, off, params={"approval": approval}, headers=key)
    second = panel.door.call("PATCH", PATH, off, params={"approval": approval}, headers=key)
    assert (first.status_code, second.status_code) == (202, 202), second.text
    assert first.json()["operations"][0]["id"] == second.json()["operations"][0]["id"]
    assert panel.end(first.json()["operations"][0]["id"])["status"] == "succeeded"
    third = panel.door.call("PATCH", PATH, off, headers=key)
    assert third.json()["operations"][0]["id"] == first.json()["operations"][0]["id"]


@pytest.mark.slow
def test_reading_everything_takes_at_most_twelve_calls(panel: Panel) -> None:
    on = panel.switch(
        training_operator={"enabled": True}, tiered_checkpointing={"enabled": True, "memory_percent": 30}, keda={"enabled": True}
    )  # fmt: skip
    assert {o["status"] for o in on} == {"succeeded"}, on
    panel.get()
    since = panel.sandbox.last_call()
    told = panel.door.get(PATH)
    calls = [f"{c['service']}:{c['operation']}" for c in panel.sandbox.calls(since)]
    assert len(calls) <= 12, calls
    assert [link for item in told["items"] for link in item["identity"] if link["status"] != "ok"] == []
    names = ("training_operator", "tiered_checkpointing", "keda", "cert_manager")
    off = panel.switch(**{name: {"enabled": False} for name in names})
    assert {o["status"] for o in off} == {"succeeded"}, off
