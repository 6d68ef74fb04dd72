"""Every workflow in each partition, as a role with the generated policies only; its calls and answers held against the rules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.aws import ledgers
from tests.aws.acting import REGIONS, ROLE, composed, make_role
from tests.aws.everything import Everything
from tests.aws.granted import filled
from tests.aws.test_pages import half_read
from tests.clusters.worlds import SandboxProcess, inventory
from tests.differential import applied

from instantstart.base import problems
from instantstart.capabilities.clusters import specs, workflows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def mine(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The calls of the product, and those that AWS's services make with its rights."""
    return [call for call in calls if call["principal"].endswith(f":role/{ROLE}")]


@pytest.mark.parametrize("partition", sorted(REGIONS))
def test_every_workflow_with_the_generated_policies(sandbox: SandboxProcess, tmp_path: Path, partition: str) -> None:
    region = REGIONS[partition]
    keys = make_role(sandbox, filled(region, partition), region)
    sandbox.admin("settings", iam_enforcement=True)
    with composed(keys, tmp_path) as room, applied.watched() as objects:
        run = Everything(room, sandbox, region)
        run.all()
    assert applied.unknown(objects) == [], "INSTANTSTART_RECORD=1 keeps them, to be held against a real Kubernetes"
    calls = mine(sandbox.ask("journal"))
    assert len({(c["service"], c["operation"]) for c in calls}) > 80
    assert [c for c in calls if c["error"] in ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation")] == []
    assert ledgers.check_tokens(c for c in calls if not c["internal"]) > 5
    strangers = [(c["service"], c["operation"], c["partitions"]) for c in calls if set(c["partitions"]) - {partition}]
    assert strangers == []
    assert ledgers.foreign_arns(run.told, partition) == []


def test_the_outcome_is_the_same_when_every_list_has_pages_of_one(sandbox: SandboxProcess, tmp_path: Path) -> None:
    empty = inventory(sandbox)
    sandbox.admin("settings", largest_page=1)
    with composed(sandbox.environment(), tmp_path) as room:
        run = Everything(room, sandbox, REGIONS["aws"])
        run.look()
        made = run.whole(cert_manager=True, instance_count=2)
        assert made.result["nodes"]["ready"] == 2
        run.look_at()
        run.delete()
    assert inventory(sandbox) == empty
    assert half_read(ledgers.habits(sandbox)["unread"]) == set()


@pytest.mark.parametrize(
    ("missing", "stage", "action"),
    [
        ({"Roles"}, "account", "iam:CreateRole"),
        ({"OwnRights", "Buckets"}, "scripts", "s3:CreateBucket"),
        ({"OwnRights", "MakeNetwork"}, "stack", "ec2:CreateVpc"),
    ],
    ids=["the preflight says it", "AWS says it", "CloudFormation says it"],
)
def test_a_missing_statement_is_a_denial_that_names_the_action(
    sandbox: SandboxProcess, tmp_path: Path, missing: set[str], stage: str, action: str
) -> None:
    documents = filled(REGIONS["aws"], "aws")
    for document in documents.values():
        document["Statement"] = [s for s in document["Statement"] if s["Sid"] not in missing]
    keys = make_role(sandbox, documents)
    sandbox.admin("settings", iam_enforcement=True)
    with composed(keys, tmp_path) as room:
        run = Everything(room, sandbox, REGIONS["aws"])
        spec = specs.ClusterTarget(tag="demo", region=run.region, **run.group())
        ended = run.crank.run(workflows.CREATE_CLUSTER, spec)
    assert ended.status != "succeeded"
    assert ended.stopped_at == stage
    assert isinstance(ended.problem, problems.Denied)
    assert action in ended.problem.detail
