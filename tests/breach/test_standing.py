"""Tries on a ready cluster: random and hostile requests, hostile words that lie about in the world, and secrets that must not."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.breach import fuzz, hostile
from tests.breach.ground import TAG, Ground
from tests.breach.secrets import Search
from tests.breach.tagging import untagged
from tests.clusters.worlds import REGION

from instantstart.faces.cli import main as cli

API = "/api/v1"
CLUSTER = f"{API}/clusters/{TAG}"
FEW = 300


def test_some_hundred_requests_find_no_fault_of_ours(ground: Ground) -> None:
    found = fuzz.run(ground, FEW, frozenset())
    assert found.findings == {}
    assert found.statuses[422] > 20
    assert found.statuses[200] > 20


@pytest.mark.slow
def test_twenty_thousand_requests_find_no_fault_of_ours(ground: Ground) -> None:
    """The same at length: make fuzz."""
    found = fuzz.run(ground, 20_000, frozenset(), seed=1000)
    assert found.findings == {}


def tool(ground: Ground, name: str, **arguments: Any) -> str:
    """What a model reads of a tool's answer."""
    said: list[str] = []

    async def ask() -> None:
        async with (
            httpx2.AsyncClient(headers=ground.sign("operator", "agent"), timeout=60) as http,
            Client(streamable_http_client(f"{ground.url}/mcp?toolsets=all", http_client=http)) as client,
        ):
            said.append("".join(str(getattr(part, "text", "")) for part in (await client.call_tool(name, arguments)).content))

    anyio.run(ask)
    return said[0]


def line(ground: Ground, *words: str, token: str = "", said: str = "") -> str:
    """What a command prints, all of it."""
    variables = {"INSTANTSTART_URL": ground.url, "INSTANTSTART_TOKEN": token or ground.token("admin")}
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    kept, sys.stdin = sys.stdin, io.StringIO(said)
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            cli.run(words)
    finally:
        sys.stdin = kept
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    return out.getvalue()


def harmless(text: str) -> list[str]:
    """Characters of a text that would move a terminal or turn its words around."""
    return sorted({c for c in text if not c.isprintable() and c != "\n"})


#: words that the sandbox's S3 takes in a key
_KEYS = {name: word for name, word in hostile.WORDS.items() if len(word) < 900 and not set(word) & set("\0\n\ud83d") and ".." not in word}


def test_names_of_objects_are_only_words_through_every_face(ground: Ground) -> None:
    """Case 89."""
    bucket = ground.ask("GET", f"{CLUSTER}/objects").json()["bucket"]
    s3 = ground.sandbox.client("s3")
    for word in _KEYS.values():
        s3.put_object(Bucket=bucket, Key=f"hostile/{word}/x", Body=b"")
    answer = ground.ask("GET", f"{CLUSTER}/objects", params={"prefix": "hostile/", "limit": 100})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert {each["prefix"] for each in answer.json()["folders"]} >= {f"hostile/{_KEYS['markup'].split('/')[0]}/"}
    for form in ("table", "json", "yaml"):
        assert harmless(line(ground, "object", "list", "--prefix", "hostile/", "--cluster", TAG, "-o", form)) == []
    told = tool(ground, "object_list", cluster=TAG, prefix="hostile/")
    assert harmless(told) == []
    assert json.loads(told)["folders"][0].keys() == {"untrusted_prefix"}


def test_events_of_the_cluster_are_only_words_through_every_face(ground: Ground) -> None:
    """Case 89."""
    kube = ground.kube()
    for number, word in enumerate(hostile.WORDS.values()):
        said = word.encode("utf-8", "replace").decode()[:1000]
        about = {"kind": "Node", "name": "somebody", "apiVersion": "v1"}
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": f"hostile-{number}", "namespace": "default"}}
        kube.create({**event, "involvedObject": about, "type": "Warning", "reason": "Hostile", "message": said, "count": 1})
    answer = ground.ask("GET", f"{CLUSTER}/events", params={"limit": 200})
    assert answer.status_code == 200
    for form in ("table", "json"):
        assert harmless(line(ground, "cluster", "events", "--cluster", TAG, "-o", form)) == []
    assert harmless(tool(ground, "cluster_events", cluster=TAG)) == []


def test_whatever_a_ready_cluster_is_made_of_bears_our_tag(ground: Ground) -> None:
    looked, without = untagged(ground.sandbox)
    assert without == []
    assert looked > 20


def test_account_and_region_are_told_and_what_is_not_found_says_where_it_was_looked_for(ground: Ground) -> None:
    """Case 84."""
    listed = ground.ask("GET", f"{API}/clusters").json()
    assert listed["account"].isdigit()
    assert [each["region"] for each in listed["items"]] == [REGION]
    missing = ground.ask("GET", f"{API}/clusters/nowhere")
    assert missing.status_code == 404
    assert REGION in missing.text
    plan = ground.ask("DELETE", CLUSTER, params={"dry_run": "true"})
    assert REGION in plan.text


def test_an_approval_is_good_for_its_caller_and_its_request_alone(ground: Ground) -> None:
    """Case 90: nothing here deletes the cluster."""
    plan = ground.ask("DELETE", CLUSTER, params={"dry_run": "true"}).json()
    agent = ground.sign("operator", "agent")
    for headers, query in (
        (None, {}),
        (None, {"approval": "made-up-approval-of-nobody"}),
        (None, {"approval": plan["approval"], "delete_data": "true"}),
        (agent, {"approval": plan["approval"]}),
    ):
        answer = ground.ask("DELETE", CLUSTER, headers=headers, params=query)
        assert (answer.status_code, answer.json()["code"]) == (409, "approval.missing"), query
    own = ground.ask("DELETE", CLUSTER, headers=agent, params={"dry_run": "true"}).json()["approval"]
    waiting = ground.ask("DELETE", CLUSTER, headers=agent, params={"approval": own})
    assert waiting.json()["status"] == "awaiting_approval"
    again = ground.ask("DELETE", CLUSTER, headers=agent, params={"approval": own, "delete_data": "true"})
    assert again.status_code == 409
    operation = waiting.json()["id"]
    assert ground.ask("POST", f"{API}/operations/{operation}:approve", headers=agent).json()["code"] == "approval.needs_person"
    assert ground.ask("POST", f"{API}/operations/{operation}:approve", headers=ground.sign("operator")).status_code == 403
    assert ground.ask("POST", f"{API}/operations/{operation}:reject").status_code == 202
    assert ground.ask("GET", f"{API}/clusters").json()["items"][0]["state"] == "ready"


#: what must be found nowhere; AWS keys are in the server's own environment and nowhere else
def _secrets(ground: Ground) -> dict[str, str]:
    return {
        "admin token": ground.plane.token,
        "agent token": ground.token("operator", "agent"),
        "hub token": "hf_" + "Qx7LmTz2Vb9RkWp4Yc6NsDf8Hg1Jt5",
        "hub token refused": "hf_" + "Wrong0Zz2Vb9RkWp4Yc6NsDf8Hg1Jt5",
        "docker password": "dckr_pat_9aZ8bY7cX6dW5eV4fU3gT2",
        "mlflow password": "mlfPassw0rd-7f3e9c1d5b",
        "oidc secret": ground.plane.settings["INSTANTSTART_OIDC_CLIENT_SECRET"],
        "aws key": ground.sandbox.keys[1],
    }


def test_secrets_are_found_only_where_they_must_be(ground: Ground, tmp_path: Path) -> None:
    """Case 87."""
    search = Search(_secrets(ground))
    for where, content in _scenario(ground, search.secrets):
        search.text(f"answer {where}", content)
    for face in ("/support-bundle", "/audit?limit=200", "/operations?limit=200", "/tokens", "/saved-forms", "/me"):
        search.text(face, ground.ask("GET", API + face).content)
    search.text("/metrics", ground.ask("GET", "/metrics").content)
    search.text("/openapi.json", ground.ask("GET", "/openapi.json").content)
    assert ground.plane.child is not None
    search.processes(ground.plane.child.pid)
    backup = tmp_path / "backup.db"
    command = [sys.executable, "-m", "instantstart", "database", "backup", str(backup), "--data-dir", str(ground.plane.folder / "data")]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    search.text("backup", backup.read_bytes())
    search.folder("data", ground.plane.folder)
    assert search.found == {("admin token", "data/data/admin-token")}
    assert search.looked > 30
    secret = ground.kube().get("Secret", "hub", "default")
    assert base64.b64decode(secret["data"]["token"]).decode() == search.secrets["hub token"]  # and there it must be


def _scenario(ground: Ground, secrets: dict[str, str]) -> list[tuple[str, bytes]]:
    """Secrets go in by every door, rightly and wrongly; all that is answered."""
    told: list[tuple[str, bytes]] = []

    def rest(method: str, path: str, **more: Any) -> None:
        told.append((f"{method} {path[:60]}", ground.ask(method, path, **more).content))

    hub, wrong, docker, mlflow = (secrets[name] for name in ("hub token", "hub token refused", "docker password", "mlflow password"))
    rest("PUT", f"{CLUSTER}/hub-tokens/default/hub", json={"token": hub})
    rest("PUT", f"{CLUSTER}/hub-tokens/no-such-namespace/hub", json={"token": wrong})
    rest("PUT", f"{CLUSTER}/hub-tokens/default/hub", json={"token": wrong, "bogus": wrong})
    rest("PUT", f"{API}/clusters/nowhere/hub-tokens/default/hub", json={"token": wrong})
    rest("PUT", f"{CLUSTER}/hub-tokens/default/hub", content=b'{"token": "' + wrong.encode(), headers={**ground.sign(), **_JSON})
    rest("GET", f"{API}/clusters/{quote(wrong)}?{wrong}={wrong}")
    rest("GET", f"{API}/operations?cluster={secrets['agent token']}")
    job = {"name": "secret", "image": "python:3.12", "instance_type": "ml.g5.8xlarge"}
    recipe = {"framework": "container", "command": ["python3", "-c", "pass"]}
    for more in (
        {"env": {"DOCKER_PASSWORD": docker, "HF_TOKEN": hub}},
        {"tracking": {"uri": f"https://user:{mlflow}@mlflow.example/"}},
    ):
        rest("POST", f"{CLUSTER}/training-jobs", params={"dry_run": "true"}, json={**job, "recipe": recipe, **more})
        rest("POST", f"{CLUSTER}/training-jobs/previews", json={**job, "recipe": recipe, **more})
        rest("POST", f"{CLUSTER}/training-jobs", json={**job, "recipe": recipe, **more})
    served = {"name": "secret", "instance_type": "ml.g5.8xlarge", "gpus": 1, "model": "Qwen/Qwen2.5-0.5B-Instruct"}
    wrongly: tuple[dict[str, Any], ...] = (
        {"env": {"HF_TOKEN": hub}},
        {"args": ["--api-key", docker]},
        {"command": f"vllm serve --api-key {docker}"},
    )
    for more in wrongly:
        rest("POST", f"{CLUSTER}/model-deployments", params={"dry_run": "true"}, json={**served, **more})
    rest("POST", f"{API}/session", json={"token": secrets["agent token"], "code": secrets["admin token"]})
    rest("POST", f"{API}/session", json={"token": secrets["agent token"] + "x"}, headers={"Origin": ground.url})
    rest("GET", f"{API}/me", headers={"Authorization": f"Bearer {secrets['admin token']}x"})
    rest("POST", f"{CLUSTER}/downloads", json={"repository": "Qwen/Qwen2.5-0.5B", "claim_name": hub, "token": hub})
    told.append(("mcp", tool(ground, "model_download", cluster=TAG, repository=wrong, token=wrong).encode()))
    told.append(("cli", line(ground, "model", "token", "hub2", "--cluster", TAG, said=hub + "\n").encode()))
    told.append(("cli", line(ground, "me", token=secrets["admin token"] + "x").encode()))
    return told


_JSON = {"Content-Type": "application/json"}
