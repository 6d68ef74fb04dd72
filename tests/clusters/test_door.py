"""The clusters slice through its door: the server's own order, one operation for one wish, lists that one bad element cannot break."""

from __future__ import annotations

import concurrent.futures
import re
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.clusters.conftest import QUICK, TYPE, ZONE, Job, asked
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart import main
from instantstart.capabilities.clusters import specs, workflows
from instantstart.capabilities.room import Room
from instantstart.store.records import ClusterRow
from instantstart_sandbox.world.settings import Settings as Weather

ASK = {"zone": ZONE, "instance_type": TYPE}
PROMISES = (("code", str), ("title", str), ("detail", str), ("kind", str), ("status", int))


class Door:
    """REST calls of an administrator."""

    def __init__(self, client: TestClient, token: str) -> None:
        self.client, self.headers = client, {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The whole answer."""
        headers = self.headers | more.pop("headers", {})
        return self.client.request(method, f"/api/v1{path}", json=body, headers=headers, **more)

    def get(self, path: str, **query: Any) -> Any:
        """The document of a read that succeeds."""
        answer = self.call("GET", path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def ask(self, path: str, body: Any = None, **more: Any) -> Any:
        """The operation that a POST starts."""
        answer = self.call("POST", path, body, **more)
        assert answer.status_code == 202, answer.text
        assert answer.headers["Location"] == f"/api/v1/operations/{answer.json()['id']}"
        return answer.json()

    def refusal(self, method: str, path: str, status: int, body: Any = None, **more: Any) -> dict[str, Any]:
        """The problem of a call that is refused: complete, and a sentence."""
        answer = self.call(method, path, body, **more)
        assert answer.status_code == status, answer.text
        assert answer.headers["content-type"].startswith("application/problem+json")
        told: dict[str, Any] = answer.json()
        for key, kind in PROMISES:
            assert isinstance(told[key], kind), told
        assert told["detail"]
        assert "Traceback" not in answer.text
        return told

    def cancel(self, operation: dict[str, Any]) -> None:
        """End an operation that a test does not need any more."""
        self.call("POST", f"/operations/{operation['id']}:cancel")


@pytest.fixture(scope="module")
def door(shared_room: Room) -> Iterator[Door]:
    """The app as the process serves it, with its engine running at the pace of the wall."""
    token = main.first_admin(shared_room)
    assert token
    secret = (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)


@pytest.fixture
def tag() -> str:
    """A tag no other test has."""
    return f"t-{secrets.token_hex(3)}"


@pytest.fixture(scope="module")
def standing(shared_room: Room, shared_sandbox: SandboxProcess) -> Job:
    """One finished cluster for the tests that only look at it or are refused."""
    shared_sandbox.clear()
    shared_sandbox.admin("settings", **{**Weather().dump(), **QUICK})
    shared_sandbox.admin("reset")
    for aws in shared_room.aws._regions.values():
        aws._kept.clear()
    job = Job(Crank(shared_room, shared_sandbox), tag="standing")
    assert job.create().status == "succeeded"
    return job


# --- looking at a cluster that stands; no test of this part changes it


def test_every_answer_says_account_region_and_identity(standing: Job, door: Door) -> None:
    page = door.get("/clusters")
    assert page["account"] == standing.site.names.account
    assert page["regions"] == [REGION]
    found = next(c for c in page["items"] if c["tag"] == "standing")
    assert (found["region"], found["account"], found["state"]) == (REGION, page["account"], "ready")
    plan = door.call("POST", "/clusters", {**ASK, "tag": "other"}, params={"dry_run": True}).json()
    assert f"in account {page['account']}, region {REGION}:" in plan["make"]
    identity = next(f for f in plan["findings"] if f["check"] == "identity")
    assert re.search(r"Account \d{12}, region us-west-2, as arn:", identity["detail"])
    gone = door.refusal("GET", "/clusters/nowhere", 404)
    assert page["account"] in gone["detail"]
    assert REGION in gone["detail"]


def test_a_cluster_is_found_by_its_tag_when_the_register_is_lost(standing: Job, door: Door, shared_room: Room) -> None:
    shared_room.store.clusters.delete("standing")
    detail = door.get("/clusters/standing")
    assert detail["stages"] == {"eks": True, "connection": True, "dependencies": True, "hyperpod": True, "storage": True}


def test_nodes_are_told_with_type_capacity_and_health(standing: Job, door: Door) -> None:
    nodes = door.get("/clusters/standing/nodes")
    assert (nodes["total"], nodes["ready"]) == (1, 1)
    assert nodes["items"][0]["instance_type"] == TYPE
    assert nodes["items"][0]["capacity_type"] == "on_demand"


def test_a_slurm_cluster_and_a_strangers_cluster_are_shown_as_not_managed(
    standing: Job, door: Door, shared_sandbox: SandboxProcess
) -> None:
    shared_sandbox.admin("scenario/foreign-cluster", name="slurm-a", region=REGION)
    shared_sandbox.admin("scenario/foreign-cluster", name="slurm-b", region=REGION, status="Failed", failure="no capacity")
    standing.site.aws._kept.clear()
    found = {c["tag"]: c for c in door.get("/clusters")["items"]}
    for name in ("slurm-a", "slurm-b"):
        assert (found[name]["managed"], found[name]["state"]) == (False, "not_managed")
        assert "Slurm" in found[name]["why"]
    assert found["standing"]["state"] == "ready"


def test_one_cluster_that_cannot_be_read_does_not_hide_the_others(standing: Job, door: Door, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.admin("scenario/foreign-cluster", name="broken", region=REGION)
    standing.site.aws._kept.clear()
    shared_sandbox.fault("sagemaker:DescribeCluster", code="AccessDeniedException", message="no", status=403, count=1)
    states = {c["tag"]: c["state"] for c in door.get("/clusters")["items"]}
    assert "unreadable" in states.values()
    assert states["standing"] in ("ready", "unreadable", "incomplete")
    assert len(states) >= 2
    shared_sandbox.clear()
    standing.site.aws._kept.clear()


def test_an_identity_that_is_not_let_in_is_named_with_the_access_entry_to_add(
    standing: Job, door: Door, shared_sandbox: SandboxProcess
) -> None:
    eks, name = shared_sandbox.client("eks"), standing.site.names.eks_cluster
    principal = standing.site.aws.identity().principal_arn
    eks.delete_access_entry(clusterName=name, principalArn=principal)
    shared_sandbox.warp(60)
    try:
        detail = door.get("/clusters/standing")
        assert not detail["stages"]["connection"]
        assert principal in detail["missing"]["connection"]
        assert detail["cluster"]["hyperpod_status"] == "InService"
        watching = standing.crank.room.kube.watching
        for arn in watching.watched():  # the watch that was open goes on; a new one is not let in
            watching.forget(arn)
        nodes = door.get("/clusters/standing/nodes")
        assert (nodes["total"], nodes["ready"]) == (1, 0)
        assert "Kubernetes could not be asked" in nodes["items"][0]["because"]
        refused = door.refusal("POST", "/clusters/standing/storage/s3", 409, {})
        assert refused["evidence"]["missing"] == "connection"
        assert refused["evidence"]["tool"] == "cluster_select"
    finally:
        again = standing.crank.run(workflows.CONNECT, asked(specs.ConnectTarget, tag="standing", region=REGION))
        assert again.status == "succeeded"


def test_two_claims_on_two_buckets_or_in_two_namespaces_never_share_a_volume_handle(standing: Job, shared_sandbox: SandboxProcess) -> None:
    where = standing.site
    from instantstart.ensure import eks

    kube = standing.crank.room.kube.cluster(eks.ref(eks.get_cluster(where.aws, where.names.eks_cluster), REGION))
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}})
    shared_sandbox.client("s3").create_bucket(Bucket="other-data", CreateBucketConfiguration={"LocationConstraint": REGION})
    for more in ({"namespace": "team-a"}, {"bucket": "other-data", "claim_name": "second"}):
        target = asked(specs.StorageTarget, tag="standing", region=REGION, **more)
        for _ in range(2):  # the second time nothing is to do
            assert standing.crank.run(workflows.CONFIGURE_STORAGE, target).status == "succeeded"
    handles = [v["spec"]["csi"]["volumeHandle"] for v in kube.list("PersistentVolume")]
    assert len(handles) == len(set(handles)) == 3


def test_another_bucket_under_a_claim_that_is_taken_is_refused(standing: Job, shared_sandbox: SandboxProcess) -> None:
    shared_sandbox.client("s3").create_bucket(Bucket="third-data", CreateBucketConfiguration={"LocationConstraint": REGION})
    turned = standing.crank.run(workflows.CONFIGURE_STORAGE, asked(specs.StorageTarget, tag="standing", region=REGION, bucket="third-data"))
    assert (turned.status, turned.problem and turned.problem.code) == ("failed", "volume.source_differs")


def test_a_bucket_that_is_not_there_is_said_at_its_field(standing: Job) -> None:
    turned = standing.crank.run(workflows.CONFIGURE_STORAGE, asked(specs.StorageTarget, "standing", bucket="no-such-bucket-x"))
    assert turned.problem is not None
    assert (turned.problem.code, turned.problem.fields[0].pointer) == ("bucket.not_found", "/bucket")


def test_a_deletion_without_its_plans_approval_is_refused_and_the_plan_names_all(standing: Job, door: Door) -> None:
    refused = door.refusal("DELETE", "/clusters/standing", 409)
    assert refused["code"] == "approval.missing"
    plan = door.call("DELETE", "/clusters/standing", params={"dry_run": True}).json()
    text = " ".join(plan["remove"])
    for name in (standing.site.names.hyperpod_cluster, standing.site.names.eks_cluster, standing.site.names.execution_role):
        assert name in text
    other = door.refusal("DELETE", "/clusters/standing", 409, params={"approval": plan["approval"], "delete_data": True})
    assert other["code"] == "approval.missing"


def test_nothing_is_taken_while_the_cluster_is_being_deleted(standing: Job, door: Door, shared_sandbox: SandboxProcess) -> None:
    plan = door.call("DELETE", "/clusters/standing", params={"dry_run": True}).json()
    shared_sandbox.fault("sagemaker:DeleteCluster", code="throttle", count=None)
    started = door.call("DELETE", "/clusters/standing", params={"approval": plan["approval"]})
    try:
        assert started.status_code == 202, started.text
        operation = started.json()
        for path, body in (("hyperpod", ASK), ("storage/s3", {}), ("dependencies", {}), ("selection", None), ("verification", None)):
            refused = door.refusal("POST", f"/clusters/standing/{path}", 409, body)
            assert refused["code"] == "cluster.being_deleted", refused
            assert operation["id"] in refused["detail"]
        refused = door.refusal("POST", "/clusters", 409, {**ASK, "tag": "standing"})
        assert refused["code"] == "operation.subject_busy"
        assert operation["id"] in refused["detail"]
    finally:
        door.cancel(started.json())
        shared_sandbox.clear()


# --- from an empty account


def test_each_stage_asked_out_of_order_names_the_missing_one_and_its_tool(job: Job, door: Door, crank: Crank, tag: str) -> None:
    job.tag = tag
    assert crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, tag=tag, region=REGION), until="network").status == "cancelled"
    unknown = door.refusal("POST", f"/clusters/{tag}/hyperpod", 404, ASK)
    assert unknown["code"] == "cluster.unknown"
    bodies = {"dependencies": {}, "hyperpod": ASK, "storage/s3": {}}

    def missing(path: str) -> tuple[str, str]:
        refused = door.refusal("POST", f"/clusters/{tag}/{path}", 409, bodies[path])
        assert refused["code"] == "cluster.stage_missing"
        assert refused["evidence"]["missing"] in refused["detail"]
        assert refused["hint"].endswith("first, and wait for its end.")
        return refused["evidence"]["missing"], refused["evidence"]["tool"]

    assert crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, tag=tag, region=REGION)).status == "succeeded"
    assert {missing(path) for path in bodies} == {("connection", "cluster_select")}
    assert crank.run(workflows.CONNECT, asked(specs.ConnectTarget, tag=tag, region=REGION)).status == "succeeded"
    assert {missing(path) for path in ("hyperpod", "storage/s3")} == {("dependencies", "dependencies_configure")}
    installed = crank.run(workflows.CONFIGURE_DEPENDENCIES, asked(specs.DependenciesTarget, tag=tag, region=REGION))
    assert installed.status == "succeeded", installed.problem
    assert installed.result["waiting_for_nodes"], "no node has joined, so something that needs nodes waits for them"
    assert missing("storage/s3") == ("hyperpod", "hyperpod_create")
    door.cancel(door.ask(f"/clusters/{tag}/hyperpod", ASK))


def test_what_can_be_known_of_a_cluster_is_refused_at_the_door_all_at_once(room: Room, door: Door, tag: str) -> None:
    before = len(door.get("/operations", limit=200)["items"])
    wrong = {"zone": "mars", "instance_type": "ml.g5.9xlarge", "kubernetes_version": "1.12", "bucket": "no-such-bucket-here", "tag": tag}
    told = door.refusal("POST", "/clusters", 422, wrong)
    assert [f["pointer"] for f in told["fields"]] == ["/kubernetes_version", "/instance_type", "/zone", "/bucket"]
    assert "Choose one of: " in told["hint"]
    told = door.refusal("POST", "/eks-clusters", 422, {"kubernetes_version": "1.12", "tag": tag})
    assert [f["pointer"] for f in told["fields"]] == ["/kubernetes_version"]
    assert len(door.get("/operations", limit=200)["items"]) == before
    assert tag not in {c["tag"] for c in door.get("/clusters")["items"]}


def test_an_account_that_cannot_be_reached_is_told_at_the_door(room: Room, door: Door, sandbox: SandboxProcess, tag: str) -> None:
    sandbox.fault("ec2:DescribeAvailabilityZones", code="AuthFailure", message="credentials", status=401, count=None)
    assert door.refusal("POST", "/clusters", 403, {**ASK, "tag": tag})["code"] == "aws.denied"
    sandbox.clear()
    sandbox.fault("ec2:DescribeVpcs", code="throttle", count=None)
    begun = door.ask("/clusters", {**ASK, "tag": tag})  # what passes by itself is the operation's to wait for
    door.cancel(begun)


def test_a_creation_that_made_nothing_is_listed_as_failed_with_the_ways_on(room: Room, door: Door, tag: str) -> None:
    begun = door.ask("/clusters", {**ASK, "tag": tag})
    told = {"code": "aws.refused", "kind": "invalid", "detail": "no such template."}
    room.store.operations.update(begun["id"], status="failed", problem=told, ended_at=room.clock.now())
    seen = next(c for c in door.get("/clusters")["items"] if c["tag"] == tag)
    assert seen["state"] == "failed"
    assert seen["why"].startswith("Its creation failed; nothing was made. no such template. Go on with ")
    assert f"operation retry {begun['id']}" in seen["why"]
    assert f"cluster forget {tag}" in seen["why"]
    assert door.get(f"/clusters/{tag}")["cluster"]["state"] == "failed"
    room.store.operations.update(begun["id"], status="cancelled", problem=None)
    assert "was cancelled; nothing was made. Go on" in door.get(f"/clusters/{tag}")["cluster"]["why"]


def test_two_clients_that_create_one_tag_at_once_get_one_operation(room: Room, door: Door, tag: str) -> None:
    body = {**ASK, "tag": tag}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: door.call("POST", "/clusters", body), range(8)))
    assert {a.status_code for a in answers} == {202}
    assert len({a.json()["id"] for a in answers}) == 1
    other = door.refusal("POST", "/clusters", 409, {**body, "instance_count": 2})
    assert other["code"] == "operation.subject_busy"
    door.cancel(answers[0].json())


def test_an_idempotency_key_repeats_the_answer_and_refuses_another_body(room: Room, door: Door, tag: str) -> None:
    key = {"Idempotency-Key": tag}
    first = door.ask("/clusters", {**ASK, "tag": tag}, headers=key)
    door.cancel(first)
    assert door.ask("/clusters", {**ASK, "tag": tag}, headers=key)["id"] == first["id"]
    other = door.refusal("POST", "/clusters", 409, {**ASK, "tag": f"{tag}-b"}, headers=key)
    assert other["code"] == "operation.key_reused"


@pytest.mark.parametrize(
    "wrong", ["", "-demo", "demo-", "d\u00e9mo", "\u6f14\u793a", "\U0001f680", "demo ", "a" * 101, "a/b", "../x", "a\nb"]
)
def test_a_bad_tag_is_refused_at_its_field_before_any_call(room: Room, door: Door, sandbox: SandboxProcess, wrong: str) -> None:
    before = sandbox.last_call()
    refused = door.refusal("POST", "/clusters", 422, {**ASK, "tag": wrong})
    assert [f["pointer"] for f in refused["fields"]] == ["/tag"]
    assert sandbox.last_call() == before


@pytest.mark.parametrize(
    "good", ["a", "a" * 16, "a" * 17, "a" * 38, "a" * 49, "a" * 63, "a" * 64, "a" * 100, "Team_A.prod", "de--mo", "xn--demo"]
)
def test_a_good_tag_of_any_length_gets_names_that_aws_takes(room: Room, door: Door, good: str) -> None:
    plan = door.call("POST", "/clusters", {**ASK, "tag": good}, params={"dry_run": True})
    assert plan.status_code == 200, plan.text


def test_a_cluster_that_was_deleted_outside_is_shown_as_gone_and_can_be_forgotten(room: Room, door: Door, tag: str) -> None:
    room.store.clusters.upsert(ClusterRow(tag=tag, region=REGION))
    found = next(c for c in door.get("/clusters")["items"] if c["tag"] == tag)
    assert (found["state"], found["managed"]) == ("gone", True)
    assert "orget it" in found["why"]
    assert door.get(f"/clusters/{tag}")["cluster"]["state"] == "gone"
    assert door.call("POST", f"/clusters/{tag}/forget").json() == {"tag": tag}
    assert tag not in {c["tag"] for c in door.get("/clusters")["items"]}


def test_a_quota_of_zero_stops_the_request_before_the_long_stages_with_its_exact_name(
    job: Job, door: Door, crank: Crank, sandbox: SandboxProcess, tag: str
) -> None:
    sandbox.admin("quota", service_code="sagemaker", name=f"{TYPE} for cluster usage", value=0)
    shown = next(t for t in door.get("/instance-types", contains="g5.8xlarge")["items"] if t["name"] == TYPE)
    assert shown["quota"] == 0
    found = door.call("POST", "/preflight", ASK).json()
    assert not found["ready"]
    told = next(f for f in found["findings"] if f["check"] == "instance_quota")
    assert f'"{TYPE} for cluster usage" is 0' in told["detail"]
    turned = job.create()
    assert (turned.status, turned.stopped_at, turned.problem and turned.problem.kind) == ("blocked", "account", "out_of_quota")
    assert turned.problem is not None
    assert turned.problem.hint


def test_quotas_that_cannot_be_read_are_unknown_not_zero(room: Room, door: Door, sandbox: SandboxProcess) -> None:
    sandbox.fault("service-quotas:.*", code="AccessDeniedException", message="no", status=403, count=None)
    shown = next(t for t in door.get("/instance-types", contains="g5.8xlarge")["items"] if t["name"] == TYPE)
    assert shown["quota"] is None
    found = door.call("POST", "/preflight", ASK).json()
    levels = {f["check"]: f["level"] for f in found["findings"]}
    assert levels["instance_quota"] == "unknown"
    assert levels["vpc_quota"] == "unknown"
    assert found["ready"]


def test_what_may_not_be_read_is_unknown_and_the_rest_is_still_told(room: Room, door: Door, sandbox: SandboxProcess) -> None:
    refused = {"code": "UnauthorizedOperation", "message": "no", "status": 403, "count": None}
    sandbox.fault("ec2:Describe(Vpcs|Addresses|InstanceTypeOfferings)", **refused)
    sandbox.fault("sagemaker:ListClusters", code="AccessDeniedException", message="no", status=403, count=None)
    found = {f["check"]: f for f in door.call("POST", "/preflight", ASK).json()["findings"]}
    assert (found["vpc_quota"]["level"], found["zone"]["level"]) == ("unknown", "unknown")
    assert found["identity"]["level"] == "ok"


def test_missing_rights_are_named_before_the_first_call(room: Room, door: Door, sandbox: SandboxProcess) -> None:
    sandbox.fault("iam:SimulatePrincipalPolicy", code="AccessDenied", message="no", status=403, count=None)
    found = {f["check"]: f for f in door.call("POST", "/preflight", ASK).json()["findings"]}
    assert found["permissions"]["level"] == "unknown"
