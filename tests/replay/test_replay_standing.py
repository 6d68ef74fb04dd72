"""The other playbooks on a cluster that stands, each followed to the letter: plans refused, wrong parameters put right by their hints, a
person's approval through the door while the agent waits, a server killed meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp_types import ElicitResult
from tests.replay.follower import Follower
from tests.replay.place import TYPE, ZONE, Place, standing

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
TAG, MODEL = "standing", "Qwen/Qwen2.5-0.5B-Instruct"
SELECTED = {"cluster": TAG}
Answer = Literal["accept", "decline", "cancel"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A cluster with three nodes, and the operators that train and serve."""
    with standing(tmp_path_factory.mktemp("replay")) as made:
        asked = {"tag": TAG, "zone": ZONE, "instance_type": TYPE, "instance_count": 3}
        _ended_well(made, made.plane.call("POST", "/clusters", asked))
        yield made


def _ended_well(place: Place, operation: dict[str, Any]) -> None:
    seen = place.plane.follow(operation["id"])
    assert seen["status"] == "succeeded", seen["problem"]


class User:
    """Who sits before the client: answers in turn, and keeps what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers, self.asked = list(answers), list[str]()

    async def __call__(self, context: Any, params: Any) -> ElicitResult:
        self.asked.append(params.message)
        action = self._answers.pop(0)
        return ElicitResult(action=action, content={"agree": True} if action == "accept" else None)


def test_cluster_features_by_difference(place: Place) -> None:
    async def body() -> None:
        async with place.client("cluster-features") as client:
            agent = Follower("cluster-features", client)
            wish = {**SELECTED, "training_operator": {"enabled": True}, "inference_operator": {"enabled": True}}
            async with agent.step(1):
                assert (await agent.ask("feature_list", **SELECTED))["items"]
            async with agent.step(2):
                wrong = await agent.refused("feature_update", **SELECTED, training_operator={"enabled": "yes"}, dry_run=True)
                assert "/training_operator/enabled" in [each["pointer"] for each in wrong["fields"]]
                assert (await agent.ask("feature_update", **wish, dry_run=True)).get("make")
            async with agent.step(3):
                begun = await agent.ask("feature_update", **wish)
                for each in begun.get("operations") or [begun]:
                    named = each if "operation_id" in each else {**each, "operation_id": each["id"], "status_tool": "operation_wait"}
                    await agent.succeeds(named)
            async with agent.step(4):
                for feature in ("training_operator", "inference_operator"):
                    assert (await agent.ask("feature_get", **SELECTED, feature=feature))["feature"]["state"] == "on"
            agent.done()

    anyio.run(body)


def test_add_capacity_over_stdio(place: Place) -> None:
    async def body() -> None:
        async with place.client("add-capacity", "stdio") as client:
            agent = Follower("add-capacity", client)
            wish = {**SELECTED, "name": "more", "instance_type": TYPE, "zone": ZONE, "instance_count": 1}
            async with agent.step(1, "training_plan_list", because="on demand was asked"):
                assert [each["name"] for each in (await agent.ask("instance_group_list", **SELECTED))["items"]] == ["workers"]
                await agent.ask("zone_list", instance_type=TYPE)
                await agent.ask("instance_type_list", contains="g5.8x")
            async with agent.step(2):
                wrong = await agent.refused("instance_group_add", **{**wish, "instance_count": -1, "dry_run": True})
                assert "/instance_count" in [each["pointer"] for each in wrong["fields"]]
                plan = await agent.ask("instance_group_add", **wish, dry_run=True)
                assert plan["make"]
            async with agent.step(3):
                await agent.succeeds(await agent.ask("instance_group_add", **wish, approval=plan["approval"]))
            async with agent.step(4):
                group = await agent.ask("instance_group_get", **SELECTED, group="more")
                assert group["group"]["current"] == 1, group
            agent.done()

    anyio.run(body)


def test_model_download_with_the_server_killed_meanwhile(place: Place) -> None:
    async def body() -> None:
        async with place.client("model-download") as client:
            agent = Follower("model-download", client)
            async with agent.step(1):
                assert (await agent.ask("model_list", **SELECTED))["items"] == []
            async with agent.step(2, "s3_volume_add", because="one is mounted"):
                assert [each["claim"] for each in (await agent.ask("volume_list", **SELECTED))["items"]] == ["s3-claim"]
            async with agent.step(3):
                wrong = await agent.ask("model_download", **SELECTED, repository="sandbox/no-such-model", dry_run=True)
                assert [each["check"] for each in wrong["findings"] if each["level"] == "fail" and each["hint"]] == ["repository"]
                await agent.ask("model_download", **SELECTED, repository="sandbox/tiny-model", dry_run=True)
            async with agent.step(4):
                begun = await agent.ask("model_download", **SELECTED, repository="sandbox/tiny-model")
                await anyio.to_thread.run_sync(place.plane.kill_and_start)
                async with place.client("model-download") as again:
                    agent.client = again
                    repeated = await agent.ask("model_download", **SELECTED, repository="sandbox/tiny-model")
                    if (
                        repeated.get("operation_id", begun["operation_id"]) != begun["operation_id"]
                    ):  # the first has ended: nothing is missing
                        assert (await agent.ask("operation_wait", operation_id=begun["operation_id"]))["status"] == "succeeded"
                        await agent.succeeds(repeated)
                    await agent.succeeds(begun)
            async with place.client("model-download") as later:
                agent.client = later
                async with agent.step(5):
                    listed = (await agent.ask("download_list", **SELECTED))["items"]
                    assert {each["repository"] for each in listed} == {"sandbox/tiny-model"}
            agent.done()

    anyio.run(body)


def test_submit_training_until_it_runs(place: Place) -> None:
    job = {**SELECTED, "name": "llm", "image": "busybox:1", "instance_type": TYPE}
    good = {**job, "recipe": {"framework": "container", "command": ["sleep", "1d"], "direct": True}}

    async def body() -> None:
        async with place.client("submit-training") as client:
            agent = Follower("submit-training", client)
            async with agent.step(1):
                assert (await agent.ask("training_recipe_list"))["items"]
                assert (await agent.ask("training_job_list", **SELECTED))["items"] == []
            async with agent.step(2):
                wrong = await agent.refused("training_job_preview", **job, recipe={"framework": "nothing"})
                assert any(each["pointer"].startswith("/recipe") for each in wrong["fields"])
                await agent.ask("training_job_preview", **good)
            async with agent.step(3, "training_log_rules_try", because="no log rule was asked for"):
                pass
            async with agent.step(4):
                await agent.succeeds(await agent.ask("training_job_submit", **good))
            async with agent.step(5, "training_runs", "training_run_metrics", because="nothing is recorded"):
                seen = await agent.ask("training_job_get", **SELECTED, kind="pytorch", namespace="default", name="llm")
                assert seen["job"]["status"] == "running", seen["job"]
                await agent.ask("logs_read", **SELECTED, job="llm")
            agent.done()

    anyio.run(body)


def test_deploy_model_until_it_has_answered(place: Place) -> None:
    wish = {**SELECTED, "name": "qwen", "command": f"python3 -m sglang.launch_server --model-path {MODEL}", "gpus": 1}
    where = {**SELECTED, "namespace": "default", "name": "qwen"}

    async def body() -> None:
        async with place.client("deploy-model") as client:
            agent = Follower("deploy-model", client)
            async with agent.step(1):
                assert (await agent.ask("served_model_list", **SELECTED))["items"] == []
            async with agent.step(
                2, *("model_deployment_create", "inference_endpoint_create", "model_pool_create"), because="it is chosen"
            ):
                pass
            async with agent.step(3):
                wrong = await agent.refused("model_deployment_create", **{**wish, "gpus": -1}, dry_run=True)
                assert "/gpus" in [each["pointer"] for each in wrong["fields"]]
                assert (await agent.ask("model_deployment_create", **wish, dry_run=True))["make"]
            async with agent.step(4):
                await agent.succeeds(await agent.ask("model_deployment_create", **wish))
            async with agent.step(5):
                await agent.ask("served_model_get", **where)
                answer = await agent.ask("model_call", **where, messages=[{"role": "user", "content": "hello"}])
                assert answer["untrusted_text"]
            agent.done()

    anyio.run(body)


def test_node_recovery_with_a_plan_refused_before_it_is_agreed(place: Place) -> None:
    user = User("decline", "accept", "accept")

    async def body() -> None:
        async with place.client("node-recovery", user=user) as client:
            agent = Follower("node-recovery", client)
            listed = (await client.call_tool("node_list", SELECTED)).structured_content["items"]
            node = next((each for each in listed if each["group"] == "more"), None)
            assert node is not None, "the node is of the group that test_add_capacity_over_stdio makes"
            here = {**SELECTED, "nodes": [node["instance_id"]]}
            async with agent.step(1):
                await agent.ask("node_health", **SELECTED)
                await agent.ask("node_get", **SELECTED, node=node["instance_id"])
                await agent.ask("hyperpod_events", **SELECTED)
            async with agent.step(2):
                plan = await agent.ask("node_reboot", **here, dry_run=True)
                await _with_a_persons_yes(place, agent, await agent.ask("node_reboot", **here, approval=plan["approval"]))
                await agent.ask("node_get", **SELECTED, node=node["instance_id"])
            async with agent.step(3):
                await agent.ask("node_replace", **here, dry_run=True)
                no = await agent.refused("node_replace", **here)
                assert no["code"] == "approval.not_given"
                begun = await agent.ask("node_replace", **here)
                await _with_a_persons_yes(place, agent, begun)
            async with agent.step(4, "node_check", because="the node is well"):
                pass
            async with agent.step(5):
                pass
            agent.done()

    anyio.run(body)
    assert len(user.asked) == 2
    assert all("Removed" in each or "Changed" in each for each in user.asked)


async def _with_a_persons_yes(place: Place, agent: Follower, begun: dict[str, Any]) -> dict[str, Any]:
    """Where it waits for a person, one says yes by the REST door while the agent waits; then to a good end."""
    told = begun
    if told["status"] == "awaiting_approval":
        assert "person" in told["next_step"]

        def approve() -> None:
            time.sleep(2)
            place.plane.call("POST", f"/operations/{begun['operation_id']}:approve")

        person = threading.Thread(target=approve)
        person.start()
        while told["status"] == "awaiting_approval":
            told = await agent.ask("operation_wait", operation_id=begun["operation_id"], seconds=50)
        person.join()
    return await agent.succeeds(told)


async def _that_stays(client: Client) -> str:
    """A node that is still there: one that was replaced a moment ago lingers in lists, which are remembered for some seconds."""
    listed = (await client.call_tool("node_list", SELECTED)).structured_content["items"]
    for each in listed:
        asked = {**SELECTED, "of": "node", "name": each["instance_id"]}
        if each["status"] == "Running" and not (await client.call_tool("diagnosis_get", asked)).is_error:
            return str(each["instance_id"])
    raise AssertionError(listed)


def test_node_health_and_nccl_read_and_change_nothing(place: Place) -> None:
    async def health() -> None:
        async with place.client("node-health", role="viewer") as client:
            agent = Follower("node-health", client)
            node = await _that_stays(client)
            async with agent.step(1, "logs_read", because="no pod failed"):
                await agent.ask("node_health", **SELECTED)
                assert (await agent.ask("diagnosis_get", **SELECTED, of="node", name=node))["standing"]
                await agent.ask("node_get", **SELECTED, node=node)
            async with agent.step(2):
                await agent.ask("hyperpod_events", **SELECTED)
                await agent.ask("fleet_pending", **SELECTED)
            async with agent.step(3):
                pass
            async with agent.step(4):
                await agent.ask("node_get", **SELECTED, node=node)
            agent.done()

    async def nccl() -> None:
        async with place.client("nccl", role="viewer") as client:
            agent = Follower("nccl", client)
            node = await _that_stays(client)
            async with agent.step(1):
                assert (await agent.ask("diagnosis_get", **SELECTED, of="nccl", name="llm"))["standing"]
            async with agent.step(2):
                await agent.ask("training_job_get", **SELECTED, kind="pytorch", namespace="default", name="llm")
            async with agent.step(3):
                await agent.ask("node_get", **SELECTED, node=node)
            async with agent.step(4):
                await agent.ask("logs_read", **SELECTED, job="llm", search="NCCL")
            for number in (5, 6):
                async with agent.step(number):
                    pass
            agent.done()

    anyio.run(health)
    anyio.run(nccl)


def test_delete_cluster_waits_for_a_person_while_the_agent_waits(place: Place) -> None:
    async def body() -> None:
        async with place.client("delete-cluster") as client:
            agent = Follower("delete-cluster", client)
            async with agent.step(1):
                assert (await agent.ask("cluster_get", **SELECTED))["cluster"]["tag"] == TAG
            async with agent.step(2):
                plan = await agent.ask("cluster_delete", **SELECTED)
                assert plan["next_step"].startswith("Nothing was changed."), plan
                assert plan["remove"]
            async with agent.step(3):
                asked = await agent.ask("cluster_delete", **SELECTED, approval=plan["approval"])
                assert asked["status"] == "awaiting_approval"
                again = await agent.ask("cluster_delete", **SELECTED, approval=plan["approval"])
                assert again["operation_id"] == asked["operation_id"]
            async with agent.step(4, "operation_retry", because="nothing blocks it"):
                await _with_a_persons_yes(place, agent, asked)
            async with agent.step(5):
                assert TAG not in [each["tag"] for each in (await agent.ask("cluster_list"))["items"]]
            agent.done()

    anyio.run(body)
