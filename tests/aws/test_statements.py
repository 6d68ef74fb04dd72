"""Each statement of the generated policies is needed: without it something the product does is denied, and the action is named.

A statement that lets something change is missed by the preflight, before anything is made; one that lets something be read is missed
by the read itself (``READS``). A new statement is covered without a line here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.aws.acting import composed, make_role
from tests.aws.granted import filled, templates
from tests.clusters.conftest import TYPE, ZONE
from tests.clusters.crank import Crank
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.aws.session import Aws
from instantstart.base import names, problems
from instantstart.capabilities.clusters import specs, workflows
from instantstart.ensure.capacity import lifecycle_logs, offers
from instantstart.ensure.iam import identity, permissions
from instantstart.ensure.inference import metric_queries
from instantstart.ensure.sites import Site
from instantstart.ensure.storage import buckets, filesystems

DEMO = names.Names("demo", REGION, "123456789012")
SIDS = [s["Sid"] for document in templates().values() for s in document["Statement"]]
ENTRY = {"clusterName": DEMO.eks_cluster, "principalArn": "arn:aws:iam::123456789012:role/control-plane"}
ADMIN = "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy"
CLUSTER = {"ClusterName": DEMO.hyperpod_cluster, "ClusterArn": f"arn:aws:sagemaker:{REGION}:123456789012:cluster/abcdefghijkl"}

WORKSPACE = metric_queries.Source("amp", f"https://aps-workspaces.{REGION}.amazonaws.com/workspaces/ws-{'0' * 36}")
#: a workspace is asked without one
NO_KUBERNETES: Any = None
LUSTRE = filesystems.Wanted("a/b", 1200, 125, "subnet-0123456789abcdef0", ())
OFFERING = {"InstanceType": "ml.p5.48xlarge", "InstanceCount": 1, "DurationHours": 24, "TargetResources": ["hyperpod-cluster"]}

#: what is asked to miss a statement that the preflight does not: reads, and a question about AWS's own policy
READS: dict[str, Callable[[Aws], Any]] = {
    "OurRoles": lambda aws: identity.find_role(aws, DEMO.execution_role),
    "OurProviders": lambda aws: identity.ensure_oidc_provider(aws, f"https://oidc.eks.{REGION}.amazonaws.com/id/0", DEMO.tags()),
    "GivenBuckets": lambda aws: buckets.find_region(aws, "training-data"),
    "OurBuckets": lambda aws: buckets.tags_of(aws, DEMO.data_bucket),
    "ScriptLogs": lambda aws: lifecycle_logs.read(aws, CLUSTER, "workers", "i-0123456789abcdef0"),
    "Look": offers.list_zones,
    "Offerings": lambda aws: aws.read("sagemaker", "search_training_plan_offerings", **OFFERING),
    "ScaleAndMend": lambda aws: aws.write("sagemaker", "update_cluster", ClusterName=DEMO.hyperpod_cluster, NodeRecovery="None"),
    "BuyTrainingPlans": lambda aws: aws.write("sagemaker", "create_training_plan", TrainingPlanName="x", TrainingPlanOfferingId="x"),
    "MakeFileSystems": lambda aws: filesystems.ensure(aws, LUSTRE, DEMO.tags(), "t" * 63),
    "RemoveFileSystems": lambda aws: aws.write(
        "fsx", "delete_file_system", FileSystemId="fs-0123456789abcdef0", ClientRequestToken="statements"
    ),
    "MakeWorkspaces": lambda aws: aws.write("amp", "create_workspace", alias="x", clientToken="statements", tags=DEMO.tags()),
    "QueryMetrics": lambda aws: metric_queries.ask(Site(aws, DEMO), NO_KUBERNETES, WORKSPACE, "up"),
    "AccessPolicies": lambda aws: aws.write("eks", "associate_access_policy", **ENTRY, policyArn=ADMIN, accessScope={"type": "cluster"}),
}
#: statements that no call of the sandbox asks for, and why they are there
NOT_ASKED = {
    "ServiceLinkedRoles": "AWS asks for it beside CreateCluster, the first time in an account; the sandbox does not (docs/sandbox.md)"
}


def actions_of(sid: str) -> set[str]:
    """What a statement allows."""
    return {a for document in templates().values() for s in document["Statement"] if s["Sid"] == sid for a in s["Action"]}


@pytest.mark.slow
@pytest.mark.parametrize("sid", [sid for sid in SIDS if sid not in NOT_ASKED])
def test_without_a_statement_something_is_denied_by_name(sandbox: SandboxProcess, tmp_path: Path, sid: str) -> None:
    documents = filled(REGION, "aws")
    for document in documents.values():
        document["Statement"] = [s for s in document["Statement"] if s["Sid"] != sid]
    documents = {name: document for name, document in documents.items() if document["Statement"]}
    if sid in READS and sid != "AccessPolicies":
        buckets_of_others(sandbox)
    keys = make_role(sandbox, documents)
    sandbox.admin("settings", iam_enforcement=True)
    with composed(keys, tmp_path) as room:
        aws = room.aws.region(REGION)
        if sid == "OwnRights":  # not knowing is not a no: it is said to be unknown, and the creation goes on
            assert permissions.unmet(aws, DEMO, aws.identity().principal_arn) is None
            with pytest.raises(problems.Denied) as denied:
                aws.read("iam", "simulate_principal_policy", PolicySourceArn=aws.identity().principal_arn, ActionNames=["iam:GetRole"])
            told = denied.value.detail
        elif sid in READS:
            with pytest.raises(problems.Denied) as refused:
                READS[sid](aws)
            told = refused.value.detail + str(refused.value.evidence)
        else:
            spec = specs.ClusterTarget(tag="demo", region=REGION, zone=ZONE, instance_type=TYPE)
            ended = Crank(room, sandbox).run(workflows.CREATE_CLUSTER, spec, until="account")
            assert isinstance(ended.problem, problems.Denied), (ended.status, ended.problem)
            told = ended.problem.detail
    assert any(action in told for action in actions_of(sid)), told


def buckets_of_others(sandbox: SandboxProcess) -> None:
    """Buckets that are there, so that a refusal to look is told apart from their absence."""
    for name in ("training-data", DEMO.data_bucket):
        sandbox.client("s3").create_bucket(Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION})


def test_a_statement_that_is_not_asked_for_says_why() -> None:
    assert set(NOT_ASKED) | set(READS) <= set(SIDS)
