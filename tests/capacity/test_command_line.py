"""Groups and plans on the command line: the same requests, a plan before what disturbs, and what a person reads."""

from __future__ import annotations

import json

import httpx2
import pytest
from tests.capacity.doors import GROUPS, Door
from tests.clusters.conftest import ZONE, Job
from tests.clusters.crank import Crank

from instantstart.faces.cli import main as cli
from instantstart.faces.cli import session

CPU, GPU = "ml.m5.2xlarge", "ml.p5.48xlarge"
IN = ["-c", "standing"]


class InProcess(httpx2.BaseTransport):
    """The command line's requests, given to the app without a socket."""

    def __init__(self, door: Door) -> None:
        self.door = door

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request."""
        answer = self.door.client.request(request.method, str(request.url), headers=dict(request.headers), content=request.read())
        return httpx2.Response(answer.status_code, headers={"content-type": answer.headers["content-type"]}, content=answer.content)


@pytest.fixture
def line(standing: Job, door: Door, crank: Crank, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command line that is signed in."""
    monkeypatch.setattr(session, "transport", InProcess(door))
    monkeypatch.setenv("INSTANTSTART_URL", "http://127.0.0.1:3099")
    monkeypatch.setenv("INSTANTSTART_TOKEN", door.headers["Authorization"].removeprefix("Bearer "))


def test_groups_are_listed_shown_and_planned(line: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["group", "list", *IN]) == 0
    assert "workers" in capsys.readouterr().out
    assert cli.run(["group", "get", "workers", *IN, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["group"]["name"] == "workers"
    wish = ["--type", CPU, "--zone", ZONE, "--label", "team=x", "--taint", "team=x:NoSchedule"]
    assert cli.run(["group", "add", "cpu", *IN, *wish, "--dry-run"]) == 0
    assert f"instance group cpu: 1 x {CPU}" in capsys.readouterr().out
    assert cli.run(["group", "update", "workers", *IN, "--label", "team=x", "--dry-run"]) == 0
    assert "KubernetesConfig" in capsys.readouterr().out
    assert cli.run(["group", "scale", "workers", "0", *IN, "--dry-run"]) == 0
    assert "1 -> 0 nodes" in capsys.readouterr().out


def test_what_is_wrong_is_told_with_its_fields_and_a_status(line: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["group", "add", "bad", *IN, "--type", CPU, "--zone", "nowhere", "--network-interface", "efa_only"]) == 2
    told = capsys.readouterr().err
    assert "/zone" in told
    assert "/network_interface" in told
    assert cli.run(["group", "update", "workers", *IN, "--label", "team"]) == 2
    assert cli.run(["group", "delete", "workers", *IN]) == 1


def test_operations_are_begun_and_what_is_so_already_starts_nothing(line: None, door: Door, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["group", "add", "later", *IN, "--type", CPU, "--count", "0", "--zone", ZONE, "--no-wait", "-o", "json"]) == 0
    begun = json.loads(capsys.readouterr().out)
    assert begun["workflow"] == "instance_group.add"
    door.call("POST", f"/operations/{begun['id']}:cancel")
    assert cli.run(["group", "scale", "workers", "1", *IN, "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["group"]["count"] == door.get(f"{GROUPS}/workers")["group"]["count"]
    assert cli.run(["group", "scale", "workers", "1", *IN]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err.strip()) == ("", "workers is as asked already; nothing was changed.")


def test_an_offering_is_shown_with_its_price_and_a_purchase_asks_first(line: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plan", "list"]) == 0
    assert cli.run(["plan", "offerings", GPU, "--count", "2", "--hours", "24", "-o", "json"]) == 0
    capsys.readouterr()
    assert cli.run(["plan", "offerings", GPU, "--count", "2", "--hours", "24", "-o", "json"]) == 0
    offering = json.loads(capsys.readouterr().out)["items"][0]
    wish = ["--offering", offering["offering_id"], "--type", GPU, "--count", "2", "--fee", offering["upfront_fee"]]
    assert cli.run(["plan", "buy", "june", *wish, "--dry-run"]) == 0
    assert "cannot be cancelled" in capsys.readouterr().out
    assert cli.run(["plan", "buy", "june", *wish]) == 2, "nobody is there to type the name"
    assert "--yes" in capsys.readouterr().err
