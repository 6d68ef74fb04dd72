"""Training through REST: bad input told at once, plans, previews, forms of each identity, the answer to a submission."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from starlette.testclient import TestClient
from tests.capacity.doors import Door
from tests.training.stands import PYTHON, TAG, TYPE, Stand, hello

from instantstart import main
from instantstart.capabilities.doors import Role
from instantstart.capabilities.room import Room

JOBS = f"/clusters/{TAG}/training-jobs"


@pytest.fixture(scope="module")
def client(shared_room: Room, standing: Stand) -> Iterator[TestClient]:
    """The app as the process serves it; its engine is not launched, so that what is begun stays queued."""
    assert main.first_admin(shared_room)
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as made:
        yield made


@pytest.fixture(scope="module")
def door(shared_room: Room, client: TestClient) -> Door:
    """The first administrator's."""
    return Door(client, (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip())


def another(room: Room, client: TestClient, name: str, role: Role) -> Door:
    """Somebody else's."""
    _, secret = room.store.identities.create_token(name, role, "person")
    return Door(client, secret)


def body(**more: Any) -> dict[str, Any]:
    return {"name": "job", "image": PYTHON, "instance_type": TYPE, "recipe": hello("x"), **more}


@pytest.mark.parametrize(
    ("more", "pointers"),
    [
        ({"name": "Not A Name"}, {"/name"}),
        ({"name": ""}, {"/name"}),
        ({"image": ""}, {"/image"}),
        ({"instance_type": "g5"}, {"/instance_type"}),
        ({"nodes": 0}, {"/nodes"}),
        ({"nodes": "2"}, {"/nodes"}),
        ({"processes": 0}, {"/processes"}),
        ({"efa": -1}, {"/efa"}),
        ({"mig": "big"}, {"/mig"}),
        ({"mounts": [{"claim": "A B", "path": "data"}]}, {"/mounts/0/claim", "/mounts/0/path"}),
        ({"env": {"1A": "x"}}, {"/env/1A"}),
        ({"mounts": [{"claim": "data"}]}, {"/mounts/0/path"}),
        ({"recipe": {"framework": "container", "command": []}}, {"/recipe/command"}),
        ({"recovery": {"max_retries": -1, "clean_pods": "Some"}}, {"/recovery/max_retries", "/recovery/clean_pods"}),
        ({"log_rules": [{"name": "a", "pattern": "(", "start_within_seconds": 0}]}, {"/log_rules/0/start_within_seconds"}),
        ({"log_rules": [{"name": "a", "pattern": "(", "start_within_seconds": 1}]}, {"/log_rules/0/pattern"}),
        ({"tracking": {"uri": "nowhere"}}, {"/tracking/uri"}),
        ({"tolerate": ["x"]}, {"/tolerate/0"}),
        ({"if_exists": "maybe"}, {"/if_exists"}),
        ({"keep_seconds": -2}, {"/keep_seconds"}),
        ({"unknown": 1}, {"/unknown"}),
        ({"env": {"RANK": "1"}, "name": "a" * 60}, {"/env/RANK", "/name"}),
    ],
)
def test_each_wrong_field_is_pointed_at(door: Door, more: dict[str, Any], pointers: set[str]) -> None:
    assert door.pointers("POST", JOBS, body(**more)) == pointers
    assert door.pointers("POST", f"{JOBS}/previews", body(**more)) == pointers


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"mounts": [{"claim": "data"}]}, "mounts.0.path is required."),
        ({"recipe": {"script": "a"}}, "recipe needs framework, which says what the rest is."),
        (
            {"recipe": {"framework": "x"}},
            "recipe must have as framework one of 'pytorch', 'llama_factory', ",
        ),
        ({"recipe": {"framework": "ms_swift"}}, "recipe.command is required."),
        ({"env": {"": "x"}}, 'env."" must be the name of an environment variable'),
        ({"kind": "ray_job", "recipe": {"framework": "pytorch", "script": "a"}}, "A recipe of pytorch runs on pytorch, not on ray_job."),
    ],
)
def test_what_is_wrong_is_said_in_our_words(door: Door, more: dict[str, Any], told: str) -> None:
    assert told in door.call("POST", f"{JOBS}/previews", body(**more)).json()["detail"]


def test_shared_memory_beyond_the_pod_s_memory_is_told_before(door: Door) -> None:
    plan = door.well(200, "POST", f"{JOBS}/previews", body(shared_memory="9000Gi"))
    assert any(f["check"] == "shared_memory" and f["level"] == "fail" and "leaves nothing" in f["detail"] for f in plan["findings"])


def test_a_pod_that_is_not_there_is_named(door: Door) -> None:
    told = door.refusal(404, "GET", f"/clusters/{TAG}/logs", pod="gone")
    assert (told["code"], told["detail"]) == ("pod.unknown", "There is no pod gone in default.")


@pytest.mark.parametrize("recipe", [{"framework": "none"}, {"framework": "ms_swift", "command": "serve"}, {"framework": "container"}, {}])
def test_a_recipe_that_is_none_is_pointed_at(door: Door, recipe: dict[str, Any]) -> None:
    assert all(p.startswith("/recipe") for p in door.pointers("POST", JOBS, body(recipe=recipe)))


def test_a_plan_shows_objects_arguments_and_findings_and_a_submission_is_answered_with_its_operation(door: Door, cluster: Stand) -> None:
    plan = door.well(200, "POST", JOBS, body(), dry_run=True)
    assert plan["make"][1] == "HyperPodPyTorchJob default/job"
    assert '["python3", "-c", "print(' in plan["make"][2]
    assert {"kind", "nodes", "resources", "object"} <= {f["check"] for f in plan["findings"]}
    answer = door.call("POST", JOBS, body())
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"].endswith(answer.json()["id"])
    assert door.well(202, "POST", JOBS, body())["id"] == answer.json()["id"]
    told = door.refusal(409, "POST", JOBS, body(nodes=2))
    assert told["code"] == "operation.subject_busy"
    versioned = door.well(202, "POST", JOBS, body(nodes=2, if_exists="version"))
    assert versioned["id"] != answer.json()["id"]
    for begun in (answer.json()["id"], versioned["id"]):
        door.call("POST", f"/operations/{begun}/cancel")


def test_a_job_that_is_not_there_is_not_found(door: Door) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/resubmissions")):
        told = door.refusal(404, method, f"{JOBS}/pytorch/default/nowhere{path}", {} if method == "POST" else None)
        assert told["code"] == "training_job.unknown"
    assert door.call("GET", f"{JOBS}/batch/default/x").status_code == 422
    assert door.get(JOBS) == {"items": [], "total": 0, "counts": {}, "cursor": None, "unknown": None}


def test_log_rules_are_tried_before_they_cost_a_restart(door: Door) -> None:
    rule = {"name": "spike", "pattern": "loss=([0-9.]+)", "threshold": 5, "comparison": "gt"}
    told = door.well(200, "POST", "/training-log-rule-trials", {"rules": [rule], "text": "loss=1\nloss=9\n"})
    assert told["rules"][0]["verdicts"] == ["Slow from line 2 on: 9 is above 5."]
    wrong = {"rules": [{**rule, "pattern": "(?<=x)"}, {**rule, "comparison": None}], "text": "x"}
    assert door.pointers("POST", "/training-log-rule-trials", wrong) == {"/rules/0/pattern", "/rules/1/name", "/rules/1/comparison"}


def test_every_recipe_is_told_with_its_fields(door: Door) -> None:
    told = {r["framework"]: r for r in door.get("/training-recipes")["items"]}
    assert list(told) == ["pytorch", "llama_factory", "ms_swift", "verl", "container"]
    assert told["verl"]["kinds"] == ["ray_job"]
    assert {c["command"]: c["module"] for c in told["ms_swift"]["commands"]}["megatron sft"] == "swift.cli._megatron.sft"
    assert all(field["says"] for recipe in told.values() for field in recipe["fields"])
    command = next(f for f in told["ms_swift"]["fields"] if f["name"] == "command")
    assert (command["required"], command["type"], command["choices"][0]) == (True, "choice", "pt")
    assert "RANK" in door.get("/training-recipes")["reserved_variables"]


def test_a_form_is_kept_for_its_identity_alone(door: Door, shared_room: Room, client: TestClient) -> None:
    mine = "/saved-forms/training_job/nightly run"
    kept = door.well(200, "PUT", mine, {"content": {"name": "x", "nodes": 2}})
    assert door.well(200, "PUT", mine, {"content": {"name": "y"}})["created_at"] == kept["created_at"]
    assert door.get(mine)["content"] == {"name": "y"}
    other = another(shared_room, client, "other", Role.operator)
    assert other.get("/saved-forms")["items"] == []
    assert other.refusal(404, "GET", mine)["code"] == "saved_form.unknown"
    assert other.refusal(404, "DELETE", mine)["code"] == "saved_form.unknown"
    assert [f["name"] for f in door.get("/saved-forms", kind="training_job")["items"]] == ["nightly run"]
    assert door.refusal(422, "PUT", mine, {"content": {"x": "y" * 200_000}})["code"] == "saved_form.too_large"
    assert door.call("PUT", "/saved-forms/toaster/x", {"content": {}}).status_code == 422
    for name in ("team%2Fnightly", "%2F", "a%2F..%2Fb", "50%25"):
        place = f"/saved-forms/training_job/{name}"
        door.well(200, "PUT", place, {"content": {"name": "z"}})
        assert door.get(place)["name"] == unquote(name)
        assert door.call("DELETE", place).status_code == 204
    assert door.call("PUT", "/saved-forms/training_job/...", {"content": {}}).status_code == 422
    assert door.call("DELETE", mine).status_code == 204
    assert door.refusal(404, "GET", mine)["code"] == "saved_form.unknown"


def test_a_viewer_looks_and_submits_nothing(shared_room: Room, client: TestClient, standing: Stand) -> None:
    viewer = another(shared_room, client, "viewer", Role.viewer)
    assert viewer.get(JOBS)["total"] == 0
    assert viewer.call("POST", f"{JOBS}/previews", body()).status_code == 200
    assert viewer.refusal(403, "POST", JOBS, body())["code"] == "identity.role_too_low"
    assert viewer.refusal(403, "DELETE", f"{JOBS}/pytorch/default/x")["code"] == "identity.role_too_low"
