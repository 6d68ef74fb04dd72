"""The preflight's question to IAM: what a role lacks is named before anything is made, and not knowing is not a no."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.aws.acting import composed, make_role
from tests.aws.granted import filled
from tests.clusters.worlds import REGION, SandboxProcess

from instantstart.base import names
from instantstart.ensure.iam import permissions


@pytest.mark.parametrize(
    ("missing", "told"),
    [
        (set(), ()),
        (
            {"Roles", "RemoveHyperPod"},
            (
                "iam:CreateRole",
                "iam:DeleteRole",
                "iam:DeleteRolePolicy",
                "iam:PutRolePolicy",
                "iam:TagRole",
                "iam:UpdateAssumeRolePolicy",
                "sagemaker:DeleteCluster",
            ),
        ),
        ({"PassRoles"}, ("iam:PassRole",)),
        ({"OwnRights"}, None),
    ],
    ids=["nothing lacks", "roles and a deletion lack", "handing over lacks", "may not ask"],
)
def test_what_a_role_lacks(sandbox: SandboxProcess, tmp_path: Path, missing: set[str], told: tuple[str, ...] | None) -> None:
    documents = filled(REGION, "aws")
    for document in documents.values():
        document["Statement"] = [s for s in document["Statement"] if s["Sid"] not in missing]
    keys = make_role(sandbox, documents)
    sandbox.admin("settings", iam_enforcement=True)
    with composed(keys, tmp_path) as room:
        aws = room.aws.region(REGION)
        identity = aws.identity()
        assert permissions.unmet(aws, names.Names("demo", REGION, identity.account), identity.principal_arn) == told
