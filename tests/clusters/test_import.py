"""A cluster that others made: what is wrong with it is told with its cure, nothing changes unasked, and what is not ours stays."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.clusters.conftest import TYPE, asked
from tests.clusters.crank import Crank, Turned
from tests.clusters.strangers import HELM, Stranger
from tests.clusters.test_door import Door
from tests.clusters.worlds import REGION, SandboxProcess, inventory

from instantstart import main
from instantstart.capabilities.clusters import specs, views, workflows
from instantstart.capabilities.clusters.imports import plans
from instantstart.capabilities.clusters.imports import specs as import_specs
from instantstart.capabilities.clusters.imports import workflows as import_workflows
from instantstart.capabilities.room import Room
from instantstart.ensure import sites
from instantstart.store.records import ClusterRow


@pytest.fixture(scope="module")
def door(shared_room: Room) -> Iterator[Door]:
    """The app as the process serves it."""
    main.first_admin(shared_room)
    secret = (shared_room.settings.data_dir / main.ADMIN_FILE).read_text().strip()
    with TestClient(main.application(shared_room), base_url="http://127.0.0.1:3099", raise_server_exceptions=False) as client:
        yield Door(client, secret)


@pytest.fixture
def stranger(room: Room, sandbox: SandboxProcess) -> Stranger:
    """Whoever made the cluster ``research``."""
    return Stranger(room, sandbox)


def levels(findings: Any) -> dict[str, str]:
    """check -> level, of findings as the door tells them or as the result holds them."""
    return {f["check"]: f["level"] for f in findings}


def plan(door: Door, **body: Any) -> dict[str, Any]:
    """The plan of an import."""
    answer = door.call("POST", "/cluster-imports", body, params={"dry_run": True})
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


def imported(crank: Crank, **body: Any) -> Turned:
    """An import to its end, as the door begins it."""
    target = plans.locate(crank.room, import_specs.ImportCluster(**body))
    plans.claim(crank.room, target)
    return crank.run(import_workflows.IMPORT_CLUSTER, target)


def writes(sandbox: SandboxProcess, since: int) -> list[str]:
    """The changing calls since a moment."""
    reads = ("Describe", "List", "Get", "Head", "Search", "Simulate")
    return [f"{c['service']}:{c['operation']}" for c in sandbox.calls(since) if not c["operation"].startswith(reads)]


def test_a_cluster_with_helms_dependencies_and_nodes_is_imported_without_a_change_and_managed(
    stranger: Stranger, crank: Crank, sandbox: SandboxProcess, door: Door
) -> None:
    stranger.eks()
    stranger.helm()
    stranger.hyperpod()
    before, world = sandbox.last_call(), inventory(sandbox)
    told = plan(door, hyperpod_cluster=stranger.pod)
    assert "EKS cluster research in us-west-2" in told["make"][0]
    assert (told["change"], told["remove"]) == ([], [])
    found = levels(told["findings"])
    assert {k for k, v in found.items() if v == "fail"} == set()
    assert found["hyperpod_dependencies"] == "ok"
    dependencies = next(f for f in told["findings"] if f["check"] == "hyperpod_dependencies")
    assert "Helm release hyperpod-dependencies" in dependencies["detail"]
    done = imported(crank, hyperpod_cluster=stranger.pod)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert (done.result["tag"], done.result["ready"], done.result["hyperpod"]) == ("research", True, "gpu-farm")
    assert writes(sandbox, before) == []
    assert inventory(sandbox) == world
    shown = next(c for c in door.get("/clusters")["items"] if c["tag"] == "research")
    assert (shown["state"], shown["managed"], shown["origin"]) == ("ready", True, "imported")
    assert (shown["eks_name"], shown["hyperpod_name"]) == ("research", "gpu-farm")
    nodes = door.get("/clusters/research/nodes")
    assert (nodes["total"], nodes["ready"]) == (1, 1)
    detail = door.get("/clusters/research")
    assert detail["stages"]["connection"]
    helm = [c for c in detail["components"] if c["why"] and "Helm release" in c["why"]]
    assert helm
    assert all(c["state"] == "ready" for c in helm)
    candidate = next(c for c in door.get("/cluster-candidates")["items"] if c["eks_name"] == "research")
    assert (candidate["importable"], candidate["tag"]) == (False, "research")
    connected = crank.run(workflows.CONNECT, asked(specs.ConnectTarget, "research"))
    assert connected.status == "succeeded"
    assert writes(sandbox, before) == []


def test_of_an_imported_cluster_nothing_that_is_not_ours_is_deleted_and_forgetting_is_offered(
    stranger: Stranger, crank: Crank, sandbox: SandboxProcess, door: Door
) -> None:
    stranger.eks()
    stranger.helm()
    stranger.hyperpod()
    assert imported(crank, eks_cluster="research").status == "succeeded"
    world = inventory(sandbox)
    for query in ({"dry_run": True}, {"approval": "x"}):
        refused = door.refusal("DELETE", "/clusters/research", 409, params=query)
        assert refused["code"] == "cluster.not_ours_to_delete"
        assert "gpu-farm was made by others" in refused["detail"]
        assert "orget" in refused["hint"]
    assert door.call("POST", "/clusters/research/forget").json() == {"tag": "research"}
    assert inventory(sandbox) == world
    assert next(c for c in door.get("/clusters")["items"] if c["tag"] == "research")["managed"] is False
    again = imported(crank, eks_cluster="research")
    assert again.status == "succeeded"
    forced = crank.run(workflows.DELETE_CLUSTER, asked(specs.DeleteTarget, "research"))
    assert forced.status == "succeeded", (forced.stopped_at, forced.problem)
    assert inventory(sandbox) == world


def test_a_cluster_without_hyperpod_is_imported_given_one_and_gives_it_back(
    stranger: Stranger, crank: Crank, sandbox: SandboxProcess, door: Door
) -> None:
    stranger.eks(admitted=False)
    world = inventory(sandbox)
    zone = sandbox.client("ec2").describe_availability_zones()["AvailabilityZones"][0]["ZoneId"]
    told = plan(door, eks_cluster="research", make_access_entry=True, install_dependencies=True)
    assert levels(told["findings"])["access_entry"] == "fail"
    assert any(line.startswith("access entry of") for line in told["make"])
    assert any("add-on eks-pod-identity-agent" in line for line in told["make"])
    done = imported(crank, eks_cluster="research", tag="lab", make_access_entry=True, install_dependencies=True)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    assert done.result["ready"], [f for f in done.result["findings"] if f["level"] == "fail"]
    group = {"zone": zone, "instance_type": TYPE}
    asked_for = door.ask("/clusters/lab/hyperpod", group)
    door.cancel(asked_for)
    made = crank.run(workflows.CREATE_HYPERPOD, asked(specs.HyperPodTarget, "lab", **group))
    assert made.status == "succeeded", (made.stopped_at, made.problem)
    stored = crank.run(workflows.CONFIGURE_STORAGE, asked(specs.StorageTarget, "lab"))
    assert stored.status == "succeeded", (stored.stopped_at, stored.problem)
    verified = crank.run(workflows.VERIFY, asked(specs.VerifyTarget, "lab"))
    assert verified.result["verified"], verified.result
    assert verified.result["eks"]["name"] == "research"
    assert door.refusal("POST", "/clusters", 409, {**group, "tag": "lab"})["code"] == "cluster.imported"
    gone = door.call("DELETE", "/clusters/lab", params={"dry_run": True}).json()
    assert any("HyperPod cluster hp-lab" in line for line in gone["remove"])
    assert "EKS cluster research" in gone["keep"][0]
    deleted = crank.run(workflows.DELETE_CLUSTER, asked(specs.DeleteTarget, "lab", delete_data=True))
    assert deleted.status == "succeeded", (deleted.stopped_at, deleted.problem)
    more = sorted(set(inventory(sandbox)) - set(world))
    assert [line for line in more if "AWSServiceRoleForSageMakerHyperPod" not in line] == []  # SageMaker's own entry is not ours
    assert set(world) - set(inventory(sandbox)) == set()
    assert crank.room.store.clusters.find("lab") is None


def test_red_checks_are_told_with_their_cures_creation_is_refused_and_each_switch_mends_one(
    stranger: Stranger, crank: Crank, sandbox: SandboxProcess, door: Door
) -> None:
    stranger.eks(mode="CONFIG_MAP", plugin="v1.16.4-eksbuild.2")
    told = plan(door, eks_cluster="research")
    found = {f["check"]: f for f in told["findings"]}
    assert (found["authentication_mode"]["level"], found["network_plugin"]["level"]) == ("fail", "fail")
    assert "1.16.4" in found["network_plugin"]["detail"]
    assert "set_authentication_mode" in found["authentication_mode"]["hint"]
    assert "update_network_plugin" in found["network_plugin"]["hint"]
    assert imported(crank, eks_cluster="research", make_access_entry=False).status == "succeeded"
    before = sandbox.last_call()
    zone = sandbox.client("ec2").describe_availability_zones()["AvailabilityZones"][0]["ZoneId"]
    refused = door.refusal("POST", "/clusters/research/hyperpod", 409, {"zone": zone, "instance_type": TYPE})
    assert refused["code"] in ("cluster.stage_missing", "eks.network_plugin_too_old")
    connect = crank.run(workflows.CONNECT, asked(specs.ConnectTarget, "research"))
    assert (connect.status, connect.problem and connect.problem.code) == ("failed", "eks.network_plugin_too_old")
    assert writes(sandbox, before) == []
    mended = imported(
        crank, eks_cluster="research", set_authentication_mode=True, update_network_plugin=True, make_access_entry=True,
        enable_prefix_delegation=True, install_dependencies=True,
    )  # fmt: skip
    assert mended.status == "succeeded", (mended.stopped_at, mended.problem)
    assert {k for k, v in levels(mended.result["findings"]).items() if v == "fail"} == set()
    cluster = sandbox.client("eks").describe_cluster(name="research")["cluster"]
    assert cluster["accessConfig"]["authenticationMode"] == "API_AND_CONFIG_MAP"
    addon = sandbox.client("eks").describe_addon(clusterName="research", addonName="vpc-cni")["addon"]
    assert not addon["addonVersion"].startswith("v1.16")


def test_prefix_delegation_of_a_self_managed_plugin_is_one_variable(stranger: Stranger, crank: Crank) -> None:
    stranger.eks()
    daemon = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "aws-node", "namespace": "kube-system"}}
    off = [{"name": "aws-node", "env": [{"name": "ENABLE_PREFIX_DELEGATION", "value": "false"}]}]
    stranger.kube.apply({**daemon, "spec": {"template": {"spec": {"containers": off}}}}, force=True)
    done = imported(crank, eks_cluster="research", enable_prefix_delegation=True)
    assert done.status == "succeeded", (done.stopped_at, done.problem)
    container = stranger.kube.get("DaemonSet", "aws-node", "kube-system")["spec"]["template"]["spec"]["containers"][0]
    assert {e["name"]: e["value"] for e in container["env"]}["ENABLE_PREFIX_DELEGATION"] == "true"
    assert "amazon-k8s-cni" in container["image"]


def test_what_else_is_installed_is_named_with_whoever_installed_it(stranger: Stranger, door: Door) -> None:
    stranger.eks()
    stranger.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "karpenter"}})
    for name, image in (("karpenter", "public/karpenter/controller:1.8.0"), ("cert-manager", "jetstack/cert-manager-controller:v1.18.2")):
        labels = {"app": name}
        spec = {"containers": [{"name": "main", "image": image}]}
        stranger.kube.apply(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": name, "namespace": "karpenter", "annotations": {**HELM, "meta.helm.sh/release-name": f"their-{name}"}},
                "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
            }
        )
    found = {f["check"]: f for f in plan(door, eks_cluster="research")["findings"]}
    for check in ("karpenter", "cert_manager"):
        assert found[check]["level"] == "warn"
        assert f"Helm release their-{check.replace('_', '-')}" in found[check]["detail"]
    assert found["s3_driver"]["level"] == "warn"
    assert found["oidc_provider"]["level"] == "warn"


def test_a_slurm_cluster_a_missing_one_another_account_and_another_region_are_clear_problems(
    stranger: Stranger, door: Door, sandbox: SandboxProcess, room: Room
) -> None:
    account = room.aws.region(REGION).identity().account
    sandbox.admin("scenario/foreign-cluster", name="slurm", region=REGION)
    for body in ({"hyperpod_cluster": "slurm"}, {"eks_cluster": "slurm"}):
        refused = door.refusal("POST", "/cluster-imports", 422, body)
        assert refused["code"] == "import.slurm"
        assert refused["fields"][0]["pointer"] == f"/{next(iter(body))}"
    candidate = next(c for c in door.get("/cluster-candidates")["items"] if c["hyperpod_name"] == "slurm")
    assert (candidate["importable"], "Slurm" in candidate["why"]) == (False, True)
    missing = door.refusal("POST", "/cluster-imports", 404, {"eks_cluster": "nowhere"})
    assert (missing["code"], account in missing["detail"], REGION in missing["detail"]) == ("import.not_found", True, True)
    other = door.refusal("POST", "/cluster-imports", 422, {"eks_cluster": f"arn:aws:eks:{REGION}:999999999999:cluster/x"})
    assert other["code"] == "import.other_account"
    split = {"eks_cluster": f"arn:aws:eks:us-east-1:{account}:cluster/x", "region": REGION}
    assert door.refusal("POST", "/cluster-imports", 422, split)["code"] == "import.regions_differ"
    assert door.refusal("POST", "/cluster-imports", 422, {})["code"] == "import.nothing_named"
    bad = door.refusal("POST", "/cluster-imports", 422, {"eks_cluster": "a b", "tag": "-x", "make_access_entry": "yes", "huh": 1})
    assert {f["pointer"] for f in bad["fields"]} == {"/eks_cluster", "/tag", "/make_access_entry", "/huh"}
    assert room.store.clusters.list() == []


def test_one_tag_for_one_cluster_whoever_asks_and_however_many_at_once(stranger: Stranger, door: Door, room: Room, crank: Crank) -> None:
    stranger.eks()
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda i: door.call("POST", "/cluster-imports", {"eks_cluster": "research", "tag": f"t{i % 2}"}), range(6)))
    taken = [a for a in answers if a.status_code == 202]
    assert taken
    assert len({a.json()["id"] for a in taken}) == 1
    assert {a.json()["code"] for a in answers if a.status_code != 202} <= {"import.already_imported"}
    assert len(room.store.clusters.list()) == 1
    door.cancel(taken[0].json())
    (row,) = room.store.clusters.list()
    other = Stranger(room, stranger.sandbox, name="second", number=61)
    other.eks()
    clash = door.refusal("POST", "/cluster-imports", 409, {"eks_cluster": "second", "tag": row.tag})
    assert (clash["code"], clash["fields"][0]["pointer"]) == ("import.tag_taken", "/tag")
    assert "research" in clash["detail"]
    room.store.clusters.upsert(ClusterRow(tag="second", region="eu-west-1"))
    derived = plans.locate(room, import_specs.ImportCluster(eks_cluster="second"))
    assert derived.tag.startswith("second-")
    again = imported(crank, eks_cluster="research")  # without a tag: the one it has
    assert (again.status, again.result["tag"]) == ("succeeded", row.tag)


def test_a_vanished_imported_cluster_is_shown_as_gone_and_one_of_another_region_is_imported_anew(
    stranger: Stranger, door: Door, room: Room, crank: Crank, sandbox: SandboxProcess
) -> None:
    stranger.eks()
    assert imported(crank, eks_cluster="research").status == "succeeded"
    sandbox.client("eks").delete_cluster(name="research")
    sandbox.warp(120)
    room.aws.region(REGION)._kept.clear()
    shown = next(c for c in door.get("/clusters")["items"] if c["tag"] == "research")
    assert (shown["state"], shown["eks_name"]) == ("gone", "research")
    assert "import it again" in shown["why"]
    assert door.get("/clusters/research")["cluster"]["state"] == "gone"
    refused = door.refusal("POST", "/clusters/research/verification", 409)
    assert "research" in refused["detail"]
    moved = Stranger(room, sandbox, region="us-east-1", number=62)
    moved.eks()
    clash = door.refusal("POST", "/cluster-imports", 409, {"eks_cluster": "research", "region": "us-east-1", "tag": "research"})
    assert (clash["code"], REGION in clash["detail"]) == ("import.tag_taken", True)
    door.call("POST", "/clusters/research/forget")
    done = imported(crank, eks_cluster="research", region="us-east-1")
    assert (done.status, done.result["region"]) == ("succeeded", "us-east-1")


def test_a_cluster_of_ours_that_was_forgotten_is_itself_again(job: Any, crank: Crank, door: Door, room: Room) -> None:
    made = crank.run(workflows.CREATE_EKS, asked(specs.EksTarget, "demo"))
    assert made.status == "succeeded"
    room.store.clusters.delete("demo")
    name = job.site.names.eks_cluster
    wrong = door.refusal("POST", "/cluster-imports", 422, {"eks_cluster": name, "tag": "other"})
    assert wrong["code"] == "import.tag_differs"
    done = imported(crank, eks_cluster=name)
    assert (done.status, done.result["tag"]) == ("succeeded", "demo")
    row = room.store.clusters.get("demo")
    assert (row.origin, row.eks_name) == ("created", None)
    assert not sites.find(room, "demo").imported
    assert views.get_cluster(room, "nobody", "demo").cluster.origin == "created"
