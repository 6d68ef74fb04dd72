"""Managed Karpenter in the panel: its own slice switches it, its cluster role is verified here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.clusters.conftest import asked

from instantstart.capabilities.capacity.karpenter import specs, workflows


@pytest.mark.slow
def test_its_role_is_verified_and_mended(features: Any) -> None:
    tag, iam = features.job.tag, features.sandbox.client("iam")
    assert features.crank.run(workflows.ENABLE, asked(specs.EnableTarget, tag)).status == "succeeded"
    view = features.read()["karpenter"]
    assert (view.state, [link.status for link in view.identity]) == ("on", ["ok", "ok", "ok"])
    role = features.job.site.names.karpenter_role
    for name in iam.list_role_policies(RoleName=role)["PolicyNames"]:
        iam.delete_role_policy(RoleName=role, PolicyName=name)
    trust = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    iam.update_assume_role_policy(RoleName=role, PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}))
    assert features.read()["karpenter"].state == "drifted"
    mended = features.repair("karpenter")
    assert mended.status == "succeeded", (mended.stopped_at, mended.problem)
    assert features.broken() == []
    assert features.crank.run(workflows.DISABLE, asked(specs.DisableTarget, tag)).status == "succeeded"
    assert features.read()["karpenter"].state == "off"
