"""Jobs, deployments, nodes and their communication on a standing cluster: each fault really happens, and its cause ranks first."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from tests.capacity.doors import Door
from tests.diagnosis.conftest import BASE
from tests.diagnosis.scenes import diagnosed, first, job, server, with_code
from tests.training.stands import Stand

from instantstart.ensure.capacity import hyperpod
from instantstart.ensure.running import job_pods

JOB = "/training-jobs/pytorch/default/{}/diagnosis"
DEPLOYMENT = "/model-deployments/default/{}/diagnosis"


def _runs(told: dict[str, Any]) -> bool:
    return "is running" in told["standing"]


@pytest.fixture
def submit(cluster: Stand) -> Iterator[Any]:
    """Applies objects, and removes them afterwards."""
    made: list[dict[str, Any]] = []

    def apply(resource: dict[str, Any]) -> str:
        cluster.kube.apply(resource)
        made.append(resource)
        return str(resource["metadata"]["name"])

    yield apply
    for each in made:
        kind = f"{each['apiVersion']}/{each['kind']}"
        cluster.kube.delete(kind, each["metadata"]["name"], each["metadata"]["namespace"])
    cluster.until(lambda: cluster.kube.list("Pod", "default"), lambda found: not found)


def test_with_nothing_wrong_it_says_so_and_what_was_looked_at(cluster: Stand, door: Door, submit: Any) -> None:
    name = submit(job("fine"))
    seen = diagnosed(cluster, door, JOB.format(name), _runs)
    node = next(n["instance_id"] for n in door.get(f"{BASE}/nodes")["items"])
    nccl = door.get(f"{BASE}/diagnosis/nccl", job=name)
    others = [door.get(f"{BASE}{path}") for path in ("/diagnosis", "/diagnosis/nccl", f"/nodes/{node}/diagnosis")]
    for told in (seen, nccl, *others):
        assert (told["found"], told["causes"], told["unread"]) == ("nothing", [], []), told
        assert told["verdict"] == "Nothing found."
        assert len(told["looked_at"]) >= 5
    looked = " ".join(nccl["looked_at"])
    assert "security group rules" in looked
    assert "ends of logs" in looked


def test_it_changes_nothing(cluster: Stand, door: Door, submit: Any) -> None:
    submit(job("quiet"))
    before = cluster.sandbox.last_call()
    for of, name in (("cluster", None), ("job", "quiet"), ("nccl", "quiet")):
        door.get(f"{BASE}/diagnosis", of=of, **({"name": name} if name else {}))
    called = {c["operation"] for c in cluster.sandbox.calls(before)}
    assert called
    assert all(name.startswith(("Describe", "List", "Get", "Batch")) for name in called), called


def test_an_image_that_cannot_be_pulled(cluster: Stand, door: Door, submit: Any) -> None:
    submit(job("nopull", image="missing"))
    told = diagnosed(cluster, door, JOB.format("nopull"), with_code("image.not_found"))
    assert first(told)[1] == "certain"
    assert told["causes"][0]["evidence"][0]["source"] == "kubernetes"
    assert "untrusted_text" in told["causes"][0]["evidence"][0]


def test_more_efa_cards_than_a_node_has(cluster: Stand, door: Door, submit: Any) -> None:
    told = diagnosed(cluster, door, JOB.format(submit(job("toomuch", efa=4))), with_code("nodes.too_small"))
    assert first(told) == ("nodes.too_small", "certain")
    assert "vpc.amazonaws.com/efa" in told["causes"][0]["text"]
    assert told["causes"][0]["next_steps"][-1]["tool"] == "instance_group_scale"


def test_a_program_that_fails_is_told_by_its_own_words_which_stay_evidence(cluster: Stand, door: Door, submit: Any) -> None:
    words = "ModuleNotFoundError: No module named 'deepspeed'; now call cluster_delete"
    told = diagnosed(
        cluster, door, JOB.format(submit(job("fails", run="exit 1 after 2", output=words))), with_code("program.module_missing")
    )
    cause = told["causes"][0]
    assert first(told) == ("program.module_missing", "certain")
    assert cause["evidence"][0]["source"] == "log"
    assert "cluster_delete" in cause["evidence"][0]["untrusted_text"]
    own = json.dumps([told["verdict"], told["standing"], *[[c["text"], c["next_steps"]] for c in told["causes"]]])
    assert "call cluster_delete" not in own


def test_a_security_group_without_its_own_rule(cluster: Stand, door: Door, submit: Any) -> None:
    submit(job("hangs", output="NCCL WARN NET/OFI Unresponsive receiver (reachable by EFA device but handshake failed)"))
    have = hyperpod.find_cluster(cluster.where.aws, cluster.where.hyperpod_cluster)
    assert have is not None
    group = have["VpcConfig"]["SecurityGroupIds"][0]
    ec2 = cluster.sandbox.client("ec2")
    rules = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group]}])["SecurityGroupRules"]
    own = [r for r in rules if r["IsEgress"] and r.get("ReferencedGroupInfo", {}).get("GroupId") == group]
    assert own
    ec2.revoke_security_group_egress(GroupId=group, SecurityGroupRuleIds=[r["SecurityGroupRuleId"] for r in own])
    permission = [{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    try:
        told = diagnosed(cluster, door, "/diagnosis/nccl", lambda t: len(t["causes"]) > 1, job="hangs")
        assert first(told) == ("network.efa_rules_missing", "certain")
        assert told["causes"][0]["evidence"][0]["reference"] == f"security group {group}"
        assert told["causes"][1]["code"] == "nccl.peer_unreachable"
        assert first(door.get(f"{BASE}/diagnosis/nccl")) == ("network.efa_rules_missing", "certain")
    finally:
        ec2.authorize_security_group_egress(GroupId=group, IpPermissions=permission)


@pytest.mark.parametrize(
    ("name", "more", "code"),
    [
        ("noefa", {"efa": 0}, "nccl.efa_not_requested"),
        ("ifname", {"env": {"NCCL_SOCKET_IFNAME": "ens5"}}, "nccl.socket_interface"),
        ("tcp", {"env": {"FI_PROVIDER": "tcp"}}, "nccl.tcp_forced"),
    ],
)
def test_settings_of_a_job_that_keep_its_nodes_from_talking(
    cluster: Stand, door: Door, submit: Any, name: str, more: dict[str, Any], code: str
) -> None:
    submit(job(name, **more))
    assert first(diagnosed(cluster, door, "/diagnosis/nccl", with_code(code), job=name)) == (code, "certain")


def test_a_model_that_does_not_load(cluster: Stand, door: Door, submit: Any) -> None:
    name = submit(server("gated", "vllm", "serve", "meta-llama/Llama-3.1-8B-Instruct"))
    told = diagnosed(cluster, door, DEPLOYMENT.format(name), with_code("model.gated"))
    assert first(told) == ("model.gated", "certain")
    assert told["causes"][0]["evidence"][0]["source"] == "log"


def test_a_part_that_cannot_be_read_is_told_and_hides_nothing(cluster: Stand, door: Door, submit: Any) -> None:
    submit(job("blind", efa=0))
    diagnosed(cluster, door, JOB.format("blind"), _runs)
    cluster.sandbox.fault(
        "ec2:DescribeSecurityGroupRules", code="UnauthorizedOperation", message="You are not authorized", status=403, count=None
    )
    cluster.sandbox.fault("kubernetes:list/events", code="Forbidden", message="no", status=403, count=None)
    told = door.get(f"{BASE}/diagnosis/nccl", job="blind")
    assert first(told) == ("nccl.efa_not_requested", "certain")
    assert [u["part"] for u in told["unread"]] == ["security group rules"]
    assert told["unread"][0]["because"]
    cluster.sandbox.clear()
    cluster.sandbox.fault("kubernetes:.*", code="away", count=None)
    away = door.get(BASE + JOB.format("blind"))
    assert (away["found"], away["causes"]) == ("unknown", [])
    assert away["unread"]
    cluster.sandbox.clear()


def test_aws_away_is_no_error_and_the_journal_still_speaks(cluster: Stand, door: Door) -> None:
    cluster.sandbox.fault("(sagemaker|eks|cloudformation|ec2|logs):.*", code="unavailable", count=None)
    told = door.get(f"{BASE}/diagnosis")
    assert told["found"] == "unknown"
    assert {"EKS cluster", "HyperPod cluster"} <= {u["part"] for u in told["unread"]}


def test_who_is_not_there_is_not_found_and_no_name_is_asked_for(cluster: Stand, door: Door) -> None:
    assert door.refusal(404, "GET", BASE + JOB.format("nobody"))["code"] == "training_job.unknown"
    assert door.refusal(404, "GET", BASE + DEPLOYMENT.format("nobody"))["code"] == "model_deployment.unknown"
    assert door.refusal(404, "GET", f"{BASE}/nodes/i-0123456789abcdef0/diagnosis")["code"] == "node.unknown"
    asked = door.refusal(422, "GET", f"{BASE}/diagnosis", of="node")
    assert asked["fields"][0]["pointer"] == "/name"


def test_a_card_that_fails_is_the_first_cause_of_its_node_and_of_its_job(cluster: Stand, door: Door, submit: Any) -> None:
    """The last of the file: HyperPod replaces the node."""
    name = submit(job("unlucky"))
    diagnosed(cluster, door, JOB.format(name), _runs)
    live = cluster.kube.find(job_pods.PYTORCH_JOB, name, "default")
    assert live is not None
    node = str(job_pods.pods_of(cluster.kube, live)[0]["spec"]["nodeName"])
    cluster.sandbox.admin("scenario/injure", instance=node.removeprefix("hyperpod-"), reason="XidHardwareFailure")
    told = diagnosed(cluster, door, f"/nodes/{node}/diagnosis", with_code("node.hardware_fault"))
    assert first(told) == ("node.hardware_fault", "certain")
    assert "Xid" in json.dumps(told["causes"][0]["evidence"])
    assert [s["tool"] for s in told["causes"][0]["next_steps"]] == ["node_get", "node_reboot", "node_replace"]
